package exec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// TestAlgorithms runs every algorithm by real ranks, one late at times, over messages of many lengths: what the proof says,
// the executor does.
func TestAlgorithms(t *testing.T) {
	twoLevel := func(world int, tile int64) *plan.Schedule {
		return allreduce.TwoLevel(lo.Times(world, func(r int) int { return r * 2 / world }), tile)
	}
	for name, build := range map[string]func(world int, tile int64) *plan.Schedule{
		"flat": allreduce.Flat, "two-shot": allreduce.TwoShot, "ring": allreduce.Ring, "recursive doubling": allreduce.RecursiveDoubling,
		"tree": allreduce.Tree, "two-level": twoLevel,
		"direct": allreduce.Direct,
	} {
		for _, world := range []int{1, 2, 3, 4, 7, 8} {
			t.Run(fmt.Sprintf("%s/%d", name, world), func(t *testing.T) {
				s := build(world, 1024)
				if err := schedule.Prove(s); err != nil {
					t.Fatal(err)
				}
				g := newTeam(t, s, Watch{})
				g.must(t, func(rank int, x *Schedule) error {
					rng := rand.New(rand.NewPCG(8, uint64(rank)))
					late := func(c Call) error { dawdle(rng); return x.Run(c) }
					for _, c := range []collective.Class{
						class(collective.Float32, collective.Sum), class(collective.BFloat16, collective.Avg),
						class(collective.Int8, collective.Prod), class(collective.Float64, collective.Min), class(collective.Int64, collective.Avg),
					} {
						size := int64(c.DataType.Size())
						if err := SelfTestSizes(late, rank, world, c, []int64{size, 64, 24, 32, 512, 16, 1024, 1024 + size, 2048, 3*1024 - size, 9000 / size * size}, g.trial(rank)); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}
