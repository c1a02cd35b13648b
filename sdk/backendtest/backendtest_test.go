package backendtest

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/conformance"
)

// ring is a right backend, whose answer a test changes.
type ring struct{ verdict backend.Verdict }

func (ring) Info() backend.Info {
	return backend.Info{
		Name: "ring", Description: "hands parts round", Kind: plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes: backend.Exactly(2, 3), Memories: []collective.Memory{collective.Host}, DataTypes: []collective.DataType{collective.Float32},
			Scope: backend.OneHost,
		},
	}
}

func (r ring) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return r.verdict, nil
}

func (ring) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Ring(req.Group.WorldSize(), 4096), nil
}

func (ring) Release(context.Context, string) error { return nil }

func TestRun(t *testing.T) { Run(t, ring{backend.Accepted(backend.AllBytes()...)}) }

// TestWireIsHeld: a rule that is broken behind the connection is found there.
func TestWireIsHeld(t *testing.T) {
	b := overWire(t, ring{backend.Accepted()})
	for _, r := range conformance.Rules() {
		if r.Name == "accept/honest" {
			x := conformance.Check(t.Context(), r, conformance.Plugin{Backends: []backend.Backend{b}}, b, conformance.Options{})
			if x.Outcome != conformance.Failed || !strings.Contains(x.Got, "accepted without a byte range") {
				t.Errorf("%+v", x)
			}
		}
	}
}

func BenchmarkRing(b *testing.B) {
	Benchmark(b, ring{}, collective.Float32, []int{2}, []int64{4096})
}
