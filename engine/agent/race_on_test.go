//go:build race

package agent

// raced says that the race detector is on. A model is one goroutine, which it only makes slow.
const raced = true
