package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
)

// inOrder numbers calls as a group does: two with number 0, by which ranks try a worker, then 1, 2, 3 and so on.
func inOrder(i int) uint64 { return uint64(max(0, i-1)) }

// callNumbers are numbers of calls worth trying, ascending: 0 twice as inOrder has it, then each up to a number, and later the
// powers of two and of ten with their neighbours. The largest is far beyond what a group lives to see, and fits every language's
// signed numbers.
func callNumbers(each int) []uint64 {
	numbers := lo.Times(each+2, inOrder)
	for _, base := range []uint64{2, 10} {
		for n := base; n <= 1<<62; n *= base {
			numbers = append(numbers, n-1, n, n+1)
		}
	}
	slices.Sort(numbers)
	return append(numbers[:1:1], slices.Compact(numbers)...)
}

// alternating are sizes in such an order that a small one follows a large one and the other way round.
func alternating(sizes []int64) []int64 {
	all := make([]int64, 0, len(sizes))
	for low, high := 0, len(sizes)-1; low <= high; low, high = low+1, high-1 {
		all = append(all, sizes[low])
		if low < high {
			all = append(all, sizes[high])
		}
	}
	return all
}

const (
	everyCall = 1024    // up to where each number is tried
	fewCalls  = 8       // the same of a worker that serves long messages only
	manyCalls = 4 << 10 // bytes at most of most of the calls that are made by the thousand
	longCalls = 16      // which size in a row of those is longer
)

// callsAreAlike: the sum is that of the inputs, whatever the number of the call and whatever was called before.
func (s *suite) callsAreAlike() error {
	g, req, p, err := s.someWorker("backendtest-calls", 2)
	if errors.As(err, new(notApplicable)) { // it serves single ranks only
		g, req, p, err = s.someWorker("backendtest-calls", 1)
	}
	if err != nil {
		return err
	}
	defer g.end()
	if err := s.plugin.found.about(s, theRun); err != nil {
		return err
	}
	ranges, err := s.accepted(req)
	if err != nil {
		return err
	}
	short := exec.TestSizes(req.Class.DataType, ranges, []int64{64}, manyCalls)
	long := exec.TestSizes(req.Class.DataType, ranges, []int64{p.SlotBytes}, max(manyCalls, min(2*p.SlotBytes, plan.TrialBytes)))
	if len(short) == 0 {
		return notApplicable("it accepted no whole element")
	}
	numbers := callNumbers(everyCall)
	if short[0] > manyCalls {
		numbers = callNumbers(fewCalls)
	}
	s.doing("%d calls, %s", len(numbers), describe(req))
	sizes := sizesOfCalls(short, long, (len(numbers)+1)/2) // each is called with twice
	number := func(i int) uint64 { return numbers[min(i, len(numbers)-1)] }
	err = g.each(func(rank int, run func(exec.Call) error) error {
		return exec.SelfTestNumbered(unevenly(rank, run), rank, req.Group.WorldSize(), req.Class, sizes, number)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", describe(req), err)
	}
	return nil
}

// sizesOfCalls are n sizes in a row, of which each is another than the one before where there are two: mostly short ones.
func sizesOfCalls(short, long []int64, n int) []int64 {
	long = lo.Filter(long, func(n int64, _ int) bool { return n > slices.Max(short) })
	short, long = alternating(short), alternating(long)
	return lo.Times(n, func(i int) int64 {
		if i%longCalls == longCalls-1 && len(long) > 0 {
			return long[i/longCalls%len(long)]
		}
		return short[i%len(short)]
	})
}
