package schedule_test

import (
	"math"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// TestCostOf: what docs/schedules.md says of the algorithms that are ready.
func TestCostOf(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8, 16} {
		f, logs := float64(n), math.Log2(float64(n))
		for name, c := range map[string]struct {
			s    *plan.Schedule
			want schedule.Cost
		}{
			"flat":     {allreduce.Flat(n, 4096), schedule.Cost{Rounds: 1, Read: 1 + f, FromOthers: f - 1, Written: 2}},
			"two-shot": {allreduce.TwoShot(n, 4096), schedule.Cost{Rounds: 2, Read: 3 - 1/f, FromOthers: 2 * (f - 1) / f, Written: 2}},
			"direct":   {allreduce.Direct(n, 4096), schedule.Cost{Rounds: 3, Read: 2 - 1/f, FromOthers: 2 * (f - 1) / f, Written: 1}},
			"ring":     {allreduce.Ring(n, 4096), schedule.Cost{Rounds: 2 * (n - 1), Read: 4 - 3/f, FromOthers: 2 * (f - 1) / f, Written: 3 - 2/f}},
			"doubling": {allreduce.RecursiveDoubling(n, 4096), schedule.Cost{Rounds: int(logs), Read: 1 + 2*logs, FromOthers: logs, Written: 1 + logs}},
			"alone":    {allreduce.Flat(1, 4096), schedule.Cost{Read: 1, Written: 1}},
		} {
			if name == "doubling" && n == 3 {
				continue
			}
			got := schedule.CostOf(c.s)
			close := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
			if got.Rounds != c.want.Rounds || !close(got.Read, c.want.Read) || !close(got.FromOthers, c.want.FromOthers) || !close(got.Written, c.want.Written) {
				t.Errorf("%s, %d ranks: %+v, want %+v", name, n, got, c.want)
			}
		}
	}
}
