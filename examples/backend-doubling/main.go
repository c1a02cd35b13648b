// Command backend-doubling is a plugin with a recursive-doubling all-reduce: after k rounds a rank has the sum of 2^k ranks.
//
// In round k a rank and the one whose number differs in bit k add up each other's sums: first neighbours, then ranks two
// apart, then four. It takes log2(n) rounds, the fewest there can be, and every round moves the whole message; so it is
// for small messages. (Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005.)
package main

import (
	"context"
	"math/bits"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{Name: "doubling", Version: "0.1.0", Backends: []backend.Backend{doubling{}}}))
}

type doubling struct{}

// Info says what the backend is and what it needs: every rank has a partner in every round only if the number of ranks
// is a power of two.
func (doubling) Info() backend.Info {
	return backend.Info{
		Name:        "doubling",
		Description: "shared memory, pairs of ranks add up each other's sums in log2(n) rounds",
		Kind:        plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes:    backend.Exactly(2, 4, 8, 16, 32, 64, 128),
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true, // both of a pair add the lower rank's sum first
		},
	}
}

// Accept says yes to every message size.
func (doubling) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan is the program of every rank. Slot k and signal k belong to round k: a slot that was used again in the next round
// could be overwritten while the partner still reads it.
//
// Two copies of each slot are enough. When a rank begins tile t+2 it has done t+1, for which each of its partners has
// given the signal of its round, and that comes after all that the partner did for t.
func (doubling) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const whole = plan.AllChunks
	n := req.Group.WorldSize()
	rounds := bits.Len(uint(n)) - 1
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 2, Slots: rounds, Signals: rounds, Chunks: 1}
	return schedule.Build(n, shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), whole)
		for round := range rounds {
			partner := r.Rank ^ 1<<round
			r.Signal(round)
			r.Wait(partner, round)
			sum := []plan.Place{schedule.Slot(min(r.Rank, partner), round), schedule.Slot(max(r.Rank, partner), round)}
			if round < rounds-1 {
				r.Reduce(schedule.Slot(r.Rank, round+1), sum, whole)
			} else {
				r.ReduceFinal(schedule.Out(), sum, whole)
			}
		}
	}), nil
}

// Release has nothing to end.
func (doubling) Release(context.Context, string) error { return nil }
