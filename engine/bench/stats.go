package bench

import (
	"math"
	"slices"
)

// Column is what was measured of one size, in place or out of place. Times are µs per call; "slowest rank" is the
// largest of all ranks' figures for the same calls.
type Column struct {
	Time       float64   // mean of all timed calls of the slowest rank
	Min        float64   // of the blocks, each by its slowest rank
	Median     float64   // of the same
	P99        float64   // of the same, nearest rank
	Trials     []float64 // means of up to five consecutive parts of the loop, each by its slowest rank
	Iterations int       // timed calls
	Block      int       // calls that were timed as one; the last block may have fewer
	Wrong      int64     // wrong elements on all ranks; -1: not checked
}

// Loop says how timed calls are split. The clock is read once for a block, which is therefore long against the time that
// takes.
type Loop struct {
	Iterations int
	Block      int // calls
}

const (
	blockMicroseconds = 5 // reading the clock takes about 0.03
	maxBlocks         = 1000
	maxIterations     = 2_000_000
	minIterations     = 5
	trials            = 5
)

// PlanLoop chooses a loop by how long one call takes, in µs. iterations, if not 0, are kept.
func PlanLoop(iterations int, seconds, call float64) Loop {
	call = max(call, 1e-3)
	n := iterations
	if n == 0 {
		n = int(min(max(seconds*1e6/call, minIterations), maxIterations))
	}
	block := max(1, int(math.Ceil(blockMicroseconds/call)))
	block = min(block, max(1, n/trials)) // every trial has a block
	block = max(block, (n+maxBlocks-1)/maxBlocks)
	return Loop{Iterations: n, Block: block}
}

// PlanDeviceLoop is PlanLoop for calls that are only enqueued: each block ends with a wait for the device, so a loop has
// few and long ones.
func PlanDeviceLoop(iterations int, seconds, call float64) Loop {
	l := PlanLoop(iterations, seconds, call)
	l.Block = max(1, l.Iterations/trials)
	return l
}

// Blocks is the number of blocks.
func (l Loop) Blocks() int { return (l.Iterations + l.Block - 1) / l.Block }

// Calls is the number of calls in block b.
func (l Loop) Calls(b int) int { return min(l.Block, l.Iterations-b*l.Block) }

// Merge makes a column from what every rank measured: the nanoseconds of each block, by rank. All ranks have the blocks
// of the loop.
func Merge(l Loop, ranks [][]int64) *Column {
	blocks := l.Blocks()
	each := make([]float64, blocks)
	for b := range each {
		each[b] = slowest(l, ranks, b, b+1)
	}
	c := &Column{Time: slowest(l, ranks, 0, blocks), Iterations: l.Iterations, Block: l.Block, Wrong: -1}
	parts := min(trials, blocks)
	for t := range parts {
		c.Trials = append(c.Trials, slowest(l, ranks, t*blocks/parts, (t+1)*blocks/parts))
	}
	slices.Sort(each)
	c.Min, c.Median, c.P99 = each[0], Median(each), Percentile(each, 99)
	return c
}

// slowest is the largest mean per call, in µs, that any rank has in the blocks from first up to before last.
func slowest(l Loop, ranks [][]int64, first, last int) float64 {
	calls := 0
	for b := first; b < last; b++ {
		calls += l.Calls(b)
	}
	worst := int64(0)
	for _, blocks := range ranks {
		var sum int64
		for _, ns := range blocks[first:last] {
			sum += ns
		}
		worst = max(worst, sum)
	}
	return float64(worst) / 1e3 / float64(calls)
}

// Median is the middle of the values, which it does not change; NaN if there are none.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	switch n := len(s); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// Percentile is the p-th percentile of sorted values by nearest rank; NaN if there are none.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(p/100*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
