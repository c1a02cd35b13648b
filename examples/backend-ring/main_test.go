package main

import (
	"math"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract: its schedules are proved, and run for every data type and reduce op.
func TestBackend(t *testing.T) { backendtest.Run(t, ring{}) }

// TestCost: what the table in examples/README.md says.
func TestCost(t *testing.T) {
	for n := 2; n <= most; n++ {
		f := float64(n)
		hold(t, n, schedule.Cost{Rounds: 2 * (n - 1), Read: 4 - 3/f, FromOthers: 2 * (f - 1) / f, Written: 3 - 2/f})
	}
}

func hold(t *testing.T, n int, want schedule.Cost) {
	t.Helper()
	p, err := ring{}.Plan(t.Context(), backend.Request{Group: collective.HostGroup("g", n)}, backend.AllBytes())
	if err != nil {
		t.Fatal(err)
	}
	got := schedule.CostOf(p.(*plan.Schedule))
	differs := func(a, b float64) bool { return math.Abs(a-b) > 1e-9 }
	if got.Rounds != want.Rounds || differs(got.FromOthers, want.FromOthers) || differs(got.Read, want.Read) || differs(got.Written, want.Written) {
		t.Errorf("%d ranks: %+v, want %+v", n, got, want)
	}
}
