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
func TestBackend(t *testing.T) { backendtest.Run(t, doubling{}) }

// TestCost: what the table in examples/README.md says.
func TestCost(t *testing.T) {
	for rounds := 1; rounds <= 7; rounds++ {
		f := float64(rounds)
		hold(t, 1<<rounds, schedule.Cost{Rounds: rounds, Read: 1 + 2*f, FromOthers: f, Written: 1 + f})
	}
}

func hold(t *testing.T, n int, want schedule.Cost) {
	t.Helper()
	p, err := doubling{}.Plan(t.Context(), backend.Request{Group: collective.HostGroup("g", n)}, backend.AllBytes())
	if err != nil {
		t.Fatal(err)
	}
	got := schedule.CostOf(p.(*plan.Schedule))
	differs := func(a, b float64) bool { return math.Abs(a-b) > 1e-9 }
	if got.Rounds != want.Rounds || differs(got.FromOthers, want.FromOthers) || differs(got.Read, want.Read) || differs(got.Written, want.Written) {
		t.Errorf("%d ranks: %+v, want %+v", n, got, want)
	}
}
