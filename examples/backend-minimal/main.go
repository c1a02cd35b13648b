// Command backend-minimal is a complete plugin: one all-reduce backend, in one file.
//
// Its algorithm is a chain. Rank 0 passes its data to rank 1, which adds its own and passes the sum on; the last rank
// then holds the sum of all, and everyone copies it from there. To write your own backend begin with a
// copy (weir plugins new) and change what Info and Plan say.
package main

import (
	"context"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{Name: "minimal", Version: "0.1.0", Backends: []backend.Backend{allReduce{}}}))
}

type allReduce struct{}

// Info says what the backend is and what it needs. The engine checks the requirements without asking.
func (allReduce) Info() backend.Info {
	return backend.Info{
		Name:        "minimal",
		Description: "shared memory, the sum is passed along a chain of ranks",
		Kind:        plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 2, Max: 16}},
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true, // everyone copies one rank's sum, which was added in rank order
		},
	}
}

// Accept says yes to every message size: nothing matters here that the requirements do not say.
func (allReduce) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan is the program of every rank. The ranks run it once for each tile, a piece of the message of up to 64 KiB. Every
// rank owns one slot of shared memory that all can read, and one signal that says "my slot is filled".
//
// One copy of each slot is enough: a rank comes to the next tile only after the last rank's signal, and by then every
// partial sum has been read; the last rank fills its slot again only after all others have come to the next tile.
func (allReduce) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const whole, filled = plan.AllChunks, 0
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 1, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(req.Group.WorldSize(), shape, func(r *schedule.Rank) {
		mine, before, last := schedule.Slot(r.Rank, 0), schedule.Slot(r.Rank-1, 0), r.WorldSize-1
		switch r.Rank {
		case 0:
			r.Copy(mine, schedule.In(), whole)
		case last: // the sum is complete, which the step has to say
			r.Wait(r.Rank-1, filled)
			r.ReduceFinal(mine, []plan.Place{before, schedule.In()}, whole)
		default:
			r.Wait(r.Rank-1, filled)
			r.Reduce(mine, []plan.Place{before, schedule.In()}, whole)
		}
		r.Signal(filled)
		r.Wait(last, filled)
		r.Copy(schedule.Out(), schedule.Slot(last, 0), whole)
	}), nil
}

// Release has nothing to end: the backend holds nothing for a group.
func (allReduce) Release(context.Context, string) error { return nil }
