package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// PipelinedFlat is Flat with each tile in parts: a rank puts the next part into its slot before it waits for this one, so
// that ranks seldom stand still, and what is in a slot is read while it is still in a cache near by. It gives the same
// bits as Flat. For messages of many parts; 1 to plan.MaxSignals parts.
//
// Two copies of each slot are enough, as for Flat: a rank begins tile t+2 only after it has had every rank's signal for
// the first part of tile t+1, which a rank gives after it has read all of tile t.
func PipelinedFlat(world int, tileBytes int64, parts int) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: parts, Chunks: parts}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		fill := func(part int) {
			r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), part)
			r.Signal(part)
		}
		fill(0)
		for part := range parts {
			if part+1 < parts {
				fill(part + 1)
			}
			r.WaitAll(part)
			r.ReduceFinal(schedule.Out(), r.Slots(0), part)
		}
	})
}

// PipelinedTwoShot is TwoShot with each tile in parts, every part of which is divided among the ranks: a rank puts the
// next part into its slot before it waits for this one, and copies the results of the part before while the others add
// up this one. It gives the same bits as TwoShot. For messages of many parts; parts times world is at most
// plan.MaxWorld, twice parts at most plan.MaxSignals.
//
// Two copies of each slot are enough, as for TwoShot: a rank begins tile t+2 only after it has had every rank's signal
// for the first part of tile t+1, which a rank gives after it has copied all of tile t.
func PipelinedTwoShot(world int, tileBytes int64, parts int) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 2 * parts, Chunks: parts * world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine := schedule.Slot(r.Rank, 0)
		filled := func(part int) int { return part }
		reduced := func(part int) int { return parts + part }
		fill := func(part int) {
			for _, peer := range r.Peers() {
				r.Copy(mine, schedule.In(), part*world+peer)
			}
			r.Signal(filled(part))
		}
		collect := func(part int) {
			r.Copy(schedule.Out(), mine, part*world+r.Rank)
			for _, peer := range r.Peers() {
				r.Wait(peer, reduced(part))
				r.Copy(schedule.Out(), schedule.Slot(peer, 0), part*world+peer)
			}
		}
		fill(0)
		for part := range parts {
			if part+1 < parts {
				fill(part + 1)
			}
			r.WaitAll(filled(part))
			r.ReduceFinal(mine, ownIn(r), part*world+r.Rank)
			r.Signal(reduced(part))
			if part > 0 {
				collect(part - 1)
			}
		}
		collect(parts - 1)
	})
}
