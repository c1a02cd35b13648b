package bench

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanLoop(t *testing.T) {
	for name, c := range map[string]struct {
		iterations int
		seconds    float64
		call       float64
		want       Loop
	}{
		"short calls in blocks":       {0, 0.1, 0.1, Loop{1_000_000, 1000}},
		"clock against the call":      {0, 0.001, 0.5, Loop{2000, 10}},
		"long calls one by one":       {0, 0.1, 2000, Loop{50, 1}},
		"never fewer than five":       {0, 0.1, 1e6, Loop{5, 1}},
		"never more than two million": {0, 3600, 0.1, Loop{2_000_000, 2000}},
		"as many as asked for":        {20, 0.1, 0.1, Loop{20, 4}},
		"one":                         {1, 0.1, 0.1, Loop{1, 1}},
		"a clock that stood still":    {0, 0.0001, 0, Loop{100_000, 5000}},
	} {
		if got := PlanLoop(c.iterations, c.seconds, c.call); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLoopBlocksHoldAllCalls(t *testing.T) {
	for _, l := range []Loop{{1, 1}, {20, 4}, {21, 4}, {23, 4}, {5, 7}} {
		sum := 0
		for b := range l.Blocks() {
			if l.Calls(b) < 1 {
				t.Errorf("%+v: block %d is empty", l, b)
			}
			sum += l.Calls(b)
		}
		if sum != l.Iterations {
			t.Errorf("%+v: %d calls in the blocks", l, sum)
		}
	}
}

// TestMerge: rank 1 is slower over all, rank 0 in the first block.
func TestMerge(t *testing.T) {
	got := Merge(Loop{Iterations: 5, Block: 2}, [][]int64{{8000, 2000, 3000}, {4000, 6000, 9000}})
	want := &Column{
		Time: 19.0 / 5, Min: 3, Median: 4, P99: 9, Trials: []float64{4, 3, 9}, Iterations: 5, Block: 2, Wrong: -1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMergeTrialsAreConsecutiveParts(t *testing.T) {
	blocks := make([]int64, 10)
	for i := range blocks {
		blocks[i] = int64(i) * 1000
	}
	got := Merge(Loop{Iterations: 10, Block: 1}, [][]int64{blocks})
	if d := cmp.Diff([]float64{0.5, 2.5, 4.5, 6.5, 8.5}, got.Trials); d != "" {
		t.Error(d)
	}
}

func TestMedianAndPercentile(t *testing.T) {
	if m := Median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median %v", m)
	}
	if m := Median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median of four %v", m)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(Percentile(nil, 99)) {
		t.Error("of nothing, want NaN")
	}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := Percentile(hundred, p); got != want {
			t.Errorf("p%v: %v, want %v", p, got, want)
		}
	}
}

func TestBandwidth(t *testing.T) {
	if got := AlgBW(64<<20, 10_000); math.Abs(got-6.7108864) > 1e-9 {
		t.Errorf("algbw %v", got)
	}
	if got := BusBW(64<<20, 10_000, 8); math.Abs(got-6.7108864*1.75) > 1e-9 {
		t.Errorf("busbw %v", got)
	}
	if got := BusBW(8, 1, 1); got != 0 {
		t.Errorf("busbw of one rank %v", got)
	}
	if got := AverageBusBW(nil, 2); got != 0 {
		t.Errorf("average of nothing %v", got)
	}
}

func TestCrossovers(t *testing.T) {
	curves := []Curve{
		{"flat", []Point{{8, 1}, {64, 2}, {512, 8}}},
		{"two-shot", []Point{{8, 4}, {64, 4}, {512, 4}}},
		{"large only", []Point{{4096, 1}}},
	}
	got := Crossovers(curves)
	if len(got) != 2 || got[0].From != "flat" || got[0].To != "two-shot" || got[1].To != "large only" {
		t.Fatalf("%+v", got)
	}
	if want := math.Sqrt(64 * 512); math.Abs(got[0].X-want) > 1e-6 { // both halve and double on the way
		t.Errorf("crossing at %v, want %v", got[0].X, want)
	}
	if got[1].X != 4096 {
		t.Errorf("crossing at %v: the curves have no size in common", got[1].X)
	}
	if len(Crossovers(nil)) != 0 || len(Crossovers(curves[:1])) != 0 {
		t.Error("one curve crosses nothing")
	}
}
