// Command backend-worker is a plugin that does all-reduces itself: the ranks copy their data into slots of shared memory
// and ring, the plugin's process adds it up, and the ranks copy the result out.
//
// That costs two handovers between processes for every call, so it is for work that needs a process of its own: another
// language, a library that does not get on with the program's, a network. Replace worker.Reduce by yours.
package main

import (
	"context"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/worker"
)

func main() {
	b := allReduce{worker.Server{Do: worker.Reduce}}
	os.Exit(plugin.Serve(plugin.Plugin{Name: "worker", Version: "0.1.0", Backends: []backend.Backend{b}}))
}

// allReduce is a backend.Backend, and by worker.Server a backend.Worker.
type allReduce struct{ worker.Server }

// Info says what the backend is and what it needs.
func (allReduce) Info() backend.Info {
	return backend.Info{
		Name:        "worker",
		Description: "the plugin's process adds up what the ranks put into shared memory",
		Kind:        plan.WorkerKind,
		Priority:    -100, // the ranks are faster by themselves
		Requirements: backend.Requirements{
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true, // added in rank order
		},
	}
}

// Accept says yes to every message size.
func (allReduce) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan says how large the slots are. With several a rank fills one while the plugin works on another.
func (allReduce) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &plan.Worker{SlotBytes: 256 << 10, Slots: 2}, nil
}

// Release has nothing to end.
func (allReduce) Release(context.Context, string) error { return nil }
