package allreduce

import (
	"fmt"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// nodes puts ranks on NUMA nodes in turn or in blocks.
func inBlocks(nodes int) func(world int, tile int64) *plan.Schedule {
	return func(world int, tile int64) *plan.Schedule {
		return TwoLevel(lo.Times(world, func(r int) int { return r * nodes / world }), tile)
	}
}

func inTurn(nodes int) func(world int, tile int64) *plan.Schedule {
	return func(world int, tile int64) *plan.Schedule {
		return TwoLevel(lo.Times(world, func(r int) int { return r % nodes }), tile)
	}
}

var algorithms = map[string]func(world int, tile int64) *plan.Schedule{
	"flat": Flat, "two-shot": TwoShot, "ring": Ring, "recursive doubling": RecursiveDoubling, "tree": Tree,
	"pipelined flat":      func(world int, tile int64) *plan.Schedule { return PipelinedFlat(world, tile, 4) },
	"pipelined two-shot":  func(world int, tile int64) *plan.Schedule { return PipelinedTwoShot(world, tile, 4) },
	"direct":              Direct,
	"two-level, one node": inBlocks(1), "two-level, two nodes": inBlocks(2), "two-level, three nodes in turn": inTurn(3),
}

// TestProved: every algorithm for every small number of ranks, and for the largest that it serves.
func TestProved(t *testing.T) {
	for name, build := range algorithms {
		for world := range 17 {
			if world > 0 {
				proved(t, name, build(world, 64<<10))
			}
		}
		largest := 64
		if name == "ring" {
			largest = RingMax
		}
		proved(t, name, build(largest, 64<<10))
	}
}

func proved(t *testing.T, name string, s *plan.Schedule) {
	t.Helper()
	if err := schedule.Prove(s); err != nil {
		t.Errorf("%s, %d ranks: %s", name, len(s.Programs), err)
	}
}

// TestShortTiles: fewer cache lines than chunks, so that the last chunks are always empty.
func TestShortTiles(t *testing.T) {
	for name, build := range algorithms {
		proved(t, fmt.Sprintf("%s, tiles of 64 bytes", name), build(7, 64))
	}
}
