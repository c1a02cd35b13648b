//go:build !amd64 && !arm64

package exec

import "sync/atomic"

// spin reads a signal until it has reached want, at most loops times.
func spin(signal *uint64, want uint32, loops int) {
	for range loops {
		if reached(atomic.LoadUint64(signal), want) {
			return
		}
	}
}
