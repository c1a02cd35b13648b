//go:build !amd64 || race

package reduce

// variants is only plain Go: there are no vector kernels for this processor, or the race detector is to see what is read
// and written, which it does not in assembly.
func variants() []variant { return []variant{plain()} }
