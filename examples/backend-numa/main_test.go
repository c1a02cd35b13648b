package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract: its schedules are proved, and run for every data type and reduce op.
func TestBackend(t *testing.T) { backendtest.Run(t, &twoLevel{}) }

// TestProved: ranks on nodes in blocks, in turn, and more of them on one node than on another.
func TestProved(t *testing.T) {
	for _, nodes := range [][]int{{0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1, 0, 1}, {1, 1, 1, 1, 0}, {0, 1, 2, 2, 1, 2, 7}, {0, 1, 1, 2, 2, 2, 3, 3, 3, 3}} {
		if err := schedule.Prove(on(t, nodes)); err != nil {
			t.Errorf("ranks on nodes %v: %s", nodes, err)
		}
	}
}

// TestCost: what the table in examples/README.md says of k nodes with w ranks each.
func TestCost(t *testing.T) {
	for k := 2; k <= 8; k++ {
		for w := 1; w <= 8; w++ {
			var nodes []int
			for rank := range k * w {
				nodes = append(nodes, rank%k)
			}
			got, kf, wf := schedule.CostOf(on(t, nodes)), float64(k), float64(w)
			want := schedule.Cost{Rounds: 3, Read: 3 + kf/wf, FromOthers: 2*(wf-1)/wf + (kf-1)/wf, Written: 2 + 2/wf}
			if w == 1 {
				want.Rounds = 1 // nobody else is on the node
			}
			differs := func(a, b float64) bool { return math.Abs(a-b) > 1e-9 }
			if got.Rounds != want.Rounds || differs(got.Read, want.Read) || differs(got.FromOthers, want.FromOthers) || differs(got.Written, want.Written) {
				t.Errorf("%d nodes of %d ranks: %+v, want %+v", k, w, got, want)
			}
		}
	}
}

// TestPretend: with the setting the nodes that ranks bring play no part.
func TestPretend(t *testing.T) {
	b := &twoLevel{}
	b.settings.Pretend = 2
	v := b.Info().Check(backend.Request{Group: collective.HostGroup("g", 4)})
	if v.Kind != backend.Accept {
		t.Errorf("got %s", v)
	}
	if got := fmt.Sprint(b.nodes(collective.HostGroup("g", 5))); got != "[[0 1 2] [3 4]]" {
		t.Errorf("ranks on nodes %s", got)
	}
}

func on(t *testing.T, nodes []int) *plan.Schedule {
	t.Helper()
	g := collective.HostGroup("g", len(nodes))
	for rank, n := range nodes {
		g.Ranks[rank].NUMA = fmt.Sprint(n)
	}
	p, err := (&twoLevel{}).Plan(t.Context(), backend.Request{Group: g}, backend.AllBytes())
	if err != nil {
		t.Fatal(err)
	}
	return p.(*plan.Schedule)
}
