package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// twoShot is the schedule for larger messages: every rank adds up one part of the message for all, then copies the
// other parts. The ranks wait twice, but each reads everything only about twice, however many they are.
type twoShot struct{ stateless }

// Info: any size, since a configuration may disable shm-flat.
func (twoShot) Info() backend.Info {
	return backend.Info{
		Name:         "shm-twoshot",
		Description:  "shared memory, every rank reduces one part of the message: large messages on one host",
		Kind:         plan.ScheduleKind,
		Priority:     100,
		Requirements: onHost(2),
	}
}

// twoShotTile is how much of a message the ranks work on at a time: little enough that what one rank has written is
// still in its second-level cache when the others read it.
const twoShotTile = 256 << 10

// Plan does not depend on the sizes: longer messages have more tiles.
func (twoShot) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return twoShotSchedule(req.Group.WorldSize(), twoShotTile), nil
}

// The signals of a rank in the two-shot schedule.
const (
	filled  = 0 // its input is in its slot
	reduced = 1 // its part of its slot is the result
)

// twoShotSchedule reduces a rank's part in place in its own slot: the part is read by nobody else before. It is right
// with two copies of each slot: a rank writes tile t+2 over tile t only after it has had every rank's first signal for
// t+1, which a rank gives after it has copied all of tile t.
func twoShotSchedule(world int, tileBytes int64) *plan.Schedule {
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 1, Signals: 2, Chunks: world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		mine := schedule.Slot(r.Rank, 0)
		r.Copy(mine, schedule.In(), plan.AllChunks)
		r.Signal(filled)
		r.WaitAll(filled)
		r.ReduceFinal(mine, r.Slots(0), r.Rank)
		r.Signal(reduced)
		r.Copy(schedule.Out(), mine, r.Rank)
		for _, peer := range r.Peers() {
			r.Wait(peer, reduced)
			r.Copy(schedule.Out(), schedule.Slot(peer, 0), peer)
		}
	})
}

var _ backend.Backend = twoShot{}
