//go:build race

package await

// raced is for ranks that wait by spinning, which are many times slower under the race detector.
const raced = 4
