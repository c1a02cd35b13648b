//go:build !race

package tests

// raced says that the race detector is on, under which ranks that spin are many times slower.
const raced = false
