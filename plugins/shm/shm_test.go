package main

import (
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/backendtest"
)

func TestFlat(t *testing.T) { backendtest.Run(t, flat{}) }

func TestDirect(t *testing.T) { backendtest.Run(t, direct{}) }

func TestTwoShot(t *testing.T) { backendtest.Run(t, twoShot{}) }

// TestEveryWorldSize: the limits and shapes, which the suite only samples.
func TestEveryWorldSize(t *testing.T) {
	for world := 1; world <= maxWorld; world++ {
		for _, cores := range []int{0, 2, world, 4 * world} {
			r := rowFor(world, cores)
			if r.flat < 1 || r.flat > flatTile || r.direct < r.flat {
				t.Errorf("%d ranks on %d cores: %+v: flat must fit a tile and end before direct begins", world, cores, r)
			}
		}
		plans := map[string]*plan.Schedule{"flat": allreduce.Flat(world, flatTile)}
		if world > 1 {
			plans["two-shot"] = allreduce.TwoShot(world, twoShotTile)
			plans["two-shot, crowded"] = allreduce.TwoShot(world, crowdedTile(world))
			plans["direct"] = allreduce.Direct(world, directTile)
		}
		for name, p := range plans {
			if err := schedule.Prove(p); err != nil {
				t.Errorf("%s, %d ranks: %v", name, world, err)
			}
		}
	}
}

func BenchmarkFlat(b *testing.B) { benchmark(b, flat{}) }

func BenchmarkTwoShot(b *testing.B) { benchmark(b, twoShot{}) }

// benchmark measures around the sizes where one backend gives way to the other.
func benchmark(b *testing.B, be backend.Backend) {
	for _, dt := range []collective.DataType{collective.Float32, collective.BFloat16} {
		backendtest.Benchmark(b, be, dt, []int{2, 4, 8, 12}, []int64{8, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10})
	}
}
