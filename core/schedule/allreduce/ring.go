package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// RingMax is the most ranks that Ring serves: each of its 2(n-1)-1 hand-overs has a signal of its own.
const RingMax = plan.MaxSignals/2 + 1

// Ring passes partial sums of every part of the message round the ranks, then the results; each rank only ever reads
// from the rank before it.
//
// 2(n-1) waits for one rank each. With n ranks and a message of m bytes each rank writes about 3m bytes and reads about
// 4m, 2(n-1)/n·m of them from the slot of the rank before. Chunk c is added up in the order c, c+1, ..., c-1, rounded at
// each rank and then copied: the same bits everywhere, but 16-bit types are rounded n-1 times. For machines whose ranks
// are best read from a neighbour.
//
// One slot is enough: a rank that overwrites a partial sum with the result has the result from all who read the sum.
func Ring(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	last := world - 1
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 2*world - 3 + 1, Chunks: world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		before := (r.Rank + last) % world
		mine, theirs := schedule.Slot(r.Rank, 0), schedule.Slot(before, 0)
		chunk := func(step int) int { return (r.Rank - step + 2*world) % world }
		r.Copy(mine, schedule.In(), r.Rank)
		r.Signal(0)
		for step := 1; step <= last; step++ {
			r.Wait(before, step-1)
			sum := []plan.Place{theirs, schedule.In()}
			if step < last {
				r.Reduce(mine, sum, chunk(step))
			} else {
				r.ReduceFinal(mine, sum, chunk(step))
			}
			r.Signal(step)
		}
		r.Copy(schedule.Out(), mine, chunk(last))
		for step := last + 1; step <= 2*last; step++ {
			r.Wait(before, step-1)
			if step == 2*last { // nobody reads it from here
				r.Copy(schedule.Out(), theirs, chunk(step))
				break
			}
			r.Copy(mine, theirs, chunk(step))
			r.Signal(step)
			r.Copy(schedule.Out(), mine, chunk(step))
		}
	})
}
