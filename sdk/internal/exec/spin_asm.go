//go:build amd64 || arm64

package exec

// spin reads the lower half of a signal until it has reached want, at most loops times, with the processor's hint for
// such loops in between. What it read is not synchronised: load the signal atomically afterwards.
//
//go:noescape
func spin(signal *uint64, want uint32, loops int)
