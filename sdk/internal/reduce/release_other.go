//go:build !amd64 || race

package reduce

import "sync/atomic"

// StoreRelease64 stores v at p, which is a multiple of 8: who loads it atomically sees all that this goroutine wrote
// before. It may become visible after loads that follow it. (On arm64 the compiler makes this a single STLR.)
func StoreRelease64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
