//go:build race

package require

// Raced says that the race detector is on, under which ranks that spin are many times slower.
const Raced = true
