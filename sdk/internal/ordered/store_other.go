//go:build !amd64 || race

package ordered

import "sync/atomic"

// Store64 stores v at p, which is a multiple of 8: who loads it atomically sees all that this goroutine wrote
// before. It may become visible after loads that follow it. (On arm64 the compiler makes this a single STLR.)
func Store64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// StoreTwo64 is Store64 of v at p, then of w at q.
func StoreTwo64(p *uint64, v uint64, q *uint64, w uint64) {
	atomic.StoreUint64(p, v)
	atomic.StoreUint64(q, w)
}
