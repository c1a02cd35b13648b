//go:build amd64 && !race

package ordered

// Store64 stores v at p, which is a multiple of 8: who loads it atomically sees all that this goroutine wrote
// before. Unlike atomic.StoreUint64, which is an exchange on amd64 and empties the store buffer, it may become visible
// after loads that follow it. It is for a flag that others wait for, not for one of two flags by which two sides each
// look whether the other has come.
//
//go:noescape
func Store64(p *uint64, v uint64)

// StoreTwo64 is Store64 of v at p, then of w at q.
//
//go:noescape
func StoreTwo64(p *uint64, v uint64, q *uint64, w uint64)
