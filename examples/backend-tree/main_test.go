package main

import (
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract: its schedules are proved, and run for every data type and reduce op.
func TestBackend(t *testing.T) { backendtest.Run(t, trees{}) }

// TestProved: every number of ranks, since each has trees of its own.
func TestProved(t *testing.T) {
	for n := 2; n <= 128; n++ {
		if err := schedule.Prove(of(t, n)); err != nil {
			t.Errorf("%d ranks: %s", n, err)
		}
	}
}

// TestInsideOneTree: who has children in one tree has none in the other, but for the one child of a root.
func TestInsideOneTree(t *testing.T) {
	for n := 2; n <= 128; n++ {
		for rank := range n {
			_, first := family(0, rank, n)
			_, second := family(1, rank, n)
			if len(first)+len(second) > 3 || min(len(first), len(second)) > 1 {
				t.Errorf("rank %d of %d has the children %v and %v", rank, n, first, second)
			}
		}
	}
}

// TestCost: what the table in examples/README.md says, at most.
func TestCost(t *testing.T) {
	for n := 2; n <= 128; n++ {
		logs := 0
		for 1<<logs < n {
			logs++
		}
		if c := schedule.CostOf(of(t, n)); c.Rounds > 2*logs+1 || c.FromOthers > 2 || c.Read > 3.5 || c.Written > 2.5 {
			t.Errorf("%d ranks: %+v", n, c)
		}
	}
}

func of(t *testing.T, n int) *plan.Schedule {
	t.Helper()
	p, err := trees{}.Plan(t.Context(), backend.Request{Group: collective.HostGroup("g", n)}, backend.AllBytes())
	if err != nil {
		t.Fatal(err)
	}
	return p.(*plan.Schedule)
}
