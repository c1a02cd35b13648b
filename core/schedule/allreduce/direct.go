package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// Direct is TwoShot without slots, for registered memory: every rank adds up one part of the message straight from the
// others' source buffers into its destination, from where the others copy it.
//
// Three waits for all others: the first, since a buffer may be read only once its caller has made the call, and the last,
// since the caller may change it when the call returns. With n ranks and a message of m bytes each rank reads (2-1/n)m,
// of which 1/n·m is its own, and writes m. The bits are those of TwoShot.
func Direct(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	const entered, reduced, left = 0, 1, 2
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 1, Signals: 3, Chunks: world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		r.Signal(entered)
		r.WaitAll(entered)
		r.ReduceFinal(schedule.Out(), r.Ins(), r.Rank)
		r.Signal(reduced)
		for _, peer := range r.Peers() {
			r.Wait(peer, reduced)
			r.Copy(schedule.Out(), schedule.PeerOut(peer), peer)
		}
		r.Signal(left)
		r.WaitAll(left)
	})
}
