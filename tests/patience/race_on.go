//go:build race

package patience

// raced is for ranks that wait by spinning, which are many times slower under the race detector.
const raced = 4
