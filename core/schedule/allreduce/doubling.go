package allreduce

import (
	"math/bits"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// RecursiveDoubling makes pairs of ranks add up each other's sums: first neighbours, then ranks two apart, then four.
// Where the number of ranks is not a power of two, each rank beyond hands its data to one below and gets the result.
//
// log2(n) waits for one rank each, and two more for those beyond a power of two. With a message of m bytes a rank writes
// and reads about 2·log2(n)·m bytes, log2(n)·m of them from slots of others. Both of a pair add the lower rank's sum
// first: the same bits everywhere, but 16-bit types are rounded log2(n) times. For small messages on many ranks.
//
// Every round has a slot of its own, since the partner may still read the one before.
func RecursiveDoubling(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	rounds := bits.Len(uint(world)) - 1
	power := 1 << rounds
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: rounds + 1, Signals: rounds + 1, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine := schedule.Slot(r.Rank, 0)
		if r.Rank >= power {
			r.Copy(mine, schedule.In(), whole)
			r.Signal(0)
			r.Wait(r.Rank-power, rounds)
			r.Copy(schedule.Out(), schedule.Slot(r.Rank-power, rounds), whole)
			return
		}
		helps := r.Rank+power < world
		if helps {
			r.Wait(r.Rank+power, 0)
			r.Reduce(mine, []plan.Place{schedule.In(), schedule.Slot(r.Rank+power, 0)}, whole)
		} else {
			r.Copy(mine, schedule.In(), whole)
		}
		for round := range rounds {
			r.Signal(round)
			partner := r.Rank ^ 1<<round
			r.Wait(partner, round)
			sum := []plan.Place{schedule.Slot(min(r.Rank, partner), round), schedule.Slot(max(r.Rank, partner), round)}
			switch result := schedule.Slot(r.Rank, rounds); {
			case round < rounds-1:
				r.Reduce(schedule.Slot(r.Rank, round+1), sum, whole)
			case helps:
				r.ReduceFinal(result, sum, whole)
				r.Signal(rounds)
				r.Copy(schedule.Out(), result, whole)
			default:
				r.ReduceFinal(schedule.Out(), sum, whole)
			}
		}
	})
}
