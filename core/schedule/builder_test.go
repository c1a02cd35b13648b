package schedule

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/plan"
)

func TestBuild(t *testing.T) {
	shape := Shape{TileBytes: 64, Buffers: 2, Slots: 1, Signals: 3, Chunks: 4}
	got := Build(3, shape, func(r *Rank) {
		if r.Rank != 1 {
			r.CopyFinal(Out(), In(), plan.AllChunks)
			return
		}
		r.Copy(Slot(1, 0), In(), plan.AllChunks)
		r.Signal(2)
		r.WaitAll(2)
		r.Reduce(Slot(1, 0), []plan.Place{In(), Slot(2, 0)}, 3)
		r.ReduceFinal(Out(), r.Slots(0), 0)
	})
	in, out := plan.Place{Where: plan.In}, plan.Place{Where: plan.Out}
	slot := func(rank int) plan.Place { return plan.Place{Where: plan.Slot, Rank: rank} }
	lone := []plan.Step{{Kind: plan.Copy, Dst: out, Srcs: []plan.Place{in}, Chunk: plan.AllChunks, Final: true}}
	want := &plan.Schedule{
		TileBytes: 64, Buffers: 2, Slots: 1, Signals: 3, Chunks: 4,
		Programs: [][]plan.Step{lone, {
			{Kind: plan.Copy, Dst: slot(1), Srcs: []plan.Place{in}, Chunk: plan.AllChunks},
			{Kind: plan.Signal, Signal: 2},
			{Kind: plan.Wait, Rank: 2, Signal: 2},
			{Kind: plan.Wait, Rank: 0, Signal: 2},
			{Kind: plan.Reduce, Dst: slot(1), Srcs: []plan.Place{in, slot(2)}, Chunk: 3},
			{Kind: plan.Reduce, Dst: out, Srcs: []plan.Place{slot(0), slot(1), slot(2)}, Final: true},
		}, lone},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(3); err != nil {
		t.Error(err)
	}
}

// TestPeers: everyone else once, beginning with the next rank.
func TestPeers(t *testing.T) {
	for rank, want := range [][]int{{1, 2, 3}, {2, 3, 0}, {3, 0, 1}, {0, 1, 2}} {
		r := Rank{Rank: rank, WorldSize: 4}
		if diff := cmp.Diff(want, r.Peers()); diff != "" {
			t.Errorf("rank %d: %s", rank, diff)
		}
	}
}
