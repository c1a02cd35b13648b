// Package allreduce holds all-reduce algorithms as functions that make a schedule.
package allreduce

import (
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

const whole = plan.AllChunks

// alone is the schedule of a group of one: a copy.
func alone(tileBytes int64) *plan.Schedule {
	return schedule.Build(1, schedule.Shape{TileBytes: tileBytes, Buffers: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.CopyFinal(schedule.Out(), schedule.In(), whole)
	})
}

// Flat makes every rank put its data into its slot and add up all slots by itself, in rank order.
//
// One wait for all others. With n ranks and a message of m bytes each rank writes 2m bytes and reads (n+1)m, nm of them
// from slots. Every rank adds in rank order in one step: the same bits everywhere, 16-bit types rounded once. For small
// messages.
//
// Two copies of each slot are enough: a rank writes tile t+2 over tile t only after it has had every rank's signal for
// t+1, which a rank gives after it has read tile t.
func Flat(world int, tileBytes int64) *plan.Schedule {
	if world == 1 {
		return alone(tileBytes)
	}
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), whole)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), whole)
	})
}
