package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// TwoShot makes every rank add up one part of the message for all, in rank order, then copy the other parts.
//
// Two waits for all others. With n ranks and a message of m bytes each rank writes 2m bytes and reads 3m - m/n, 2m - m/n
// of them from slots, however many ranks there are. A part is added up on one rank in one step: the same bits everywhere,
// 16-bit types rounded once. For larger messages.
//
// A rank adds up its own part from where the caller has it, into its slot, where nobody else has read it before. Two copies of each slot are
// enough: a rank writes tile t+2 over tile t only after it has had every rank's first signal for t+1, which a rank gives
// after it has copied all of tile t.
func TwoShot(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	const filled, reduced = 0, 1
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 2, Chunks: world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine := schedule.Slot(r.Rank, 0)
		for _, peer := range r.Peers() {
			r.Copy(mine, schedule.In(), peer)
		}
		r.Signal(filled)
		r.WaitAll(filled)
		r.ReduceFinal(mine, ownIn(r), r.Rank)
		r.Signal(reduced)
		r.Copy(schedule.Out(), mine, r.Rank)
		for _, peer := range r.Peers() {
			r.Wait(peer, reduced)
			r.Copy(schedule.Out(), schedule.Slot(peer, 0), peer)
		}
	})
}

// ownIn is the slot of every rank, in rank order, but for this rank the caller's source, which it need not copy.
func ownIn(r *schedule.Rank) []plan.Place {
	places := r.Slots(0)
	places[r.Rank] = schedule.In()
	return places
}
