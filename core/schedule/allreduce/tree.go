package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// Tree adds up along a binary tree to rank 0 and passes the result down the same way. The children of rank r are ranks
// 2r+1 and 2r+2.
//
// 2·log2(n) waits one after the other at most. With a message of m bytes a rank writes at most 3m bytes and reads at most
// 5m, 3m of them from slots of others, and a leaf writes and reads 2m. The sum is made once: the same bits everywhere, but
// 16-bit types are rounded at each level. For small messages, where waiting for few ranks counts most.
//
// One slot is enough: a rank that overwrites its partial sum with the result has the result from those who read the sum.
func Tree(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	const up, down = 0, 1
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 2, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine, parent := schedule.Slot(r.Rank, 0), (r.Rank-1)/2
		sum := []plan.Place{schedule.In()}
		for child := 2*r.Rank + 1; child <= 2*r.Rank+2 && child < world; child++ {
			r.Wait(child, up)
			sum = append(sum, schedule.Slot(child, 0))
		}
		leaf := len(sum) == 1
		switch {
		case r.Rank == 0:
			r.ReduceFinal(mine, sum, whole)
			r.Signal(down)
			r.Copy(schedule.Out(), mine, whole)
			return
		case leaf:
			r.Copy(mine, schedule.In(), whole)
		default:
			r.Reduce(mine, sum, whole)
		}
		r.Signal(up)
		r.Wait(parent, down)
		if leaf {
			r.Copy(schedule.Out(), schedule.Slot(parent, 0), whole)
			return
		}
		r.Copy(mine, schedule.Slot(parent, 0), whole)
		r.Signal(down)
		r.Copy(schedule.Out(), mine, whole)
	})
}
