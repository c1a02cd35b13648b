// Command backend-ring is a plugin with a ring all-reduce: partial sums go round the ranks, then the results do.
//
// The message is in as many chunks as there are ranks. In the first half chunk c starts at rank c, and each rank on its
// way adds its own data: n-1 steps. In the second half the finished chunk goes on round: n-1 steps more. Every rank only
// ever reads from the rank before it. (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, 2009.)
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
	os.Exit(plugin.Serve(plugin.Plugin{Name: "ring", Version: "0.1.0", Backends: []backend.Backend{ring{}}}))
}

type ring struct{}

// most is how many ranks a schedule's signals are enough for: each of the 2(n-1) handovers has one of its own.
const most = plan.MaxSignals/2 + 1

// Info says what the backend is and what it needs.
func (ring) Info() backend.Info {
	return backend.Info{
		Name:        "ring",
		Description: "shared memory, every chunk goes round all ranks twice",
		Kind:        plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 2, Max: most}},
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true, // a chunk is added up in the same order every time, and copied from there
		},
	}
}

// Accept says yes to every message size.
func (ring) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan is the program of every rank. Signal k says that a rank has done step k.
//
// One slot is enough: a rank overwrites a partial sum with the result only when the result has come to it, and the result
// is made of that sum, so whoever read it has done so. Two copies of the slot let a rank begin the next tile meanwhile.
func (ring) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	n := req.Group.WorldSize()
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 2, Slots: 1, Signals: 2 * (n - 1), Chunks: n}
	return schedule.Build(n, shape, func(r *schedule.Rank) {
		before := (r.Rank + n - 1) % n
		mine, theirs := schedule.Slot(r.Rank, 0), schedule.Slot(before, 0)
		chunk := func(step int) int { return (r.Rank - step + 2*n) % n } // that a step is about

		r.Copy(mine, schedule.In(), chunk(0))
		r.Signal(0)
		for step := 1; step < n; step++ { // partial sums
			r.Wait(before, step-1)
			sum := []plan.Place{theirs, schedule.In()}
			if step < n-1 {
				r.Reduce(mine, sum, chunk(step))
			} else {
				r.ReduceFinal(mine, sum, chunk(step)) // this rank is the last on the chunk's way
				r.Copy(schedule.Out(), mine, chunk(step))
			}
			r.Signal(step)
		}
		for step := n; step < 2*n-2; step++ { // results
			r.Wait(before, step-1)
			r.Copy(mine, theirs, chunk(step))
			r.Signal(step)
			r.Copy(schedule.Out(), mine, chunk(step))
		}
		r.Wait(before, 2*n-3)
		r.Copy(schedule.Out(), theirs, chunk(2*n-2)) // nobody reads it from here
	}), nil
}

// Release has nothing to end.
func (ring) Release(context.Context, string) error { return nil }
