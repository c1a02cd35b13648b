package plugin_test

import (
	"context"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

// flat lets every rank publish its input and add up all of them: one hop, which suits small messages.
type flat struct{}

func (flat) Info() backend.Info {
	return backend.Info{
		Name: "example-flat", Description: "one shot through shared slots", Kind: plan.ScheduleKind,
		Requirements: backend.Requirements{
			Memories: []collective.Memory{collective.Host},
			Scope:    backend.OneHost,
			Windows:  []backend.Window{{Range: backend.Range{Min: 1, Max: 64 << 10}}},
		},
	}
}

// Accept has nothing to add to the requirements, which the engine has checked.
func (flat) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

func (flat) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const slot, ready, read = 0, 0, 1
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 2, Slots: 1, Signals: 2, Chunks: 1}
	return schedule.Build(req.Group.WorldSize(), shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, slot), schedule.In(), plan.AllChunks)
		r.Signal(ready)
		r.WaitAll(ready)
		r.ReduceFinal(schedule.Out(), r.Slots(slot), plan.AllChunks)
		r.Signal(read)
		r.WaitAll(read) // nobody overwrites a slot that another rank still reads
	}), nil
}

func (flat) Release(context.Context, string) error { return nil }

// A complete plugin: a backend, and a main that hands it over.
func ExampleServe() {
	main := func() {
		os.Exit(plugin.Serve(plugin.Plugin{
			Name: "example", Version: "1.0.0", Backends: []backend.Backend{flat{}},
		}))
	}
	_ = main
	// Output:
}
