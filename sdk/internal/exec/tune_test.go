package exec

import (
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

func TestTuneBytes(t *testing.T) {
	for _, c := range []struct {
		ranges []backend.Range
		want   int64
	}{
		{nil, 0},
		{backend.AllBytes(), 64 << 10},
		{[]backend.Range{{Min: 1, Max: 8192}}, 8192},
		{[]backend.Range{{Min: 1, Max: 8191}}, 8188},
		{[]backend.Range{{Min: 1, Max: 4095}}, 0},
		{[]backend.Range{{Min: 1 << 20, Max: backend.NoLimit}}, 0},
		{[]backend.Range{{Min: 100_001, Max: backend.NoLimit}}, 100_004},
		{[]backend.Range{{Min: 1, Max: backend.NoLimit, Multiple: 48}}, 65472},
		{[]backend.Range{{Min: 1, Max: 5000}, {Min: 6000, Max: 7000}}, 7000},
	} {
		if got := TuneBytes(collective.Float32, c.ranges); got != c.want {
			t.Errorf("%v: %d bytes, want %d", c.ranges, got, c.want)
		}
	}
}

// TestTune: whatever every rank has found, results are right; also where the ranks have found differently.
func TestTune(t *testing.T) {
	for name, differ := range map[string]bool{"as found": false, "differently": true} {
		t.Run(name, func(t *testing.T) {
			g := newTeam(t, allreduce.TwoShot(3, 32<<10), Watch{})
			g.must(t, func(rank int, x *Schedule) error {
				x.watch.Yield = false
				c := class(collective.BFloat16, collective.Sum)
				if err := x.Tune(c, 20<<10, nil); err != nil {
					return err
				}
				if differ {
					x.past = rank != 1
				}
				return SelfTestSizes(x.Run, rank, 3, c, []int64{2, 4098, 30000, 100002}, nil)
			})
		})
	}
}

// TestTuneIsSkipped where ranks share cores: no call is made, so one rank alone does not wait.
func TestTuneIsSkipped(t *testing.T) {
	g := newTeam(t, allreduce.TwoShot(2, 32<<10), Watch{})
	x := g.ranks[0]
	x.watch.Yield = true
	if err := x.Tune(class(collective.Float32, collective.Sum), 20<<10, nil); err != nil || x.next != 1 {
		t.Errorf("%v, next tile is number %d", err, x.next)
	}
}
