package dispatch_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// source is a random source whose seed is printed when the test fails.
func source(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// randomRanges are up to three ranges, mostly of small counts so that they meet, some without a limit.
func randomRanges(r *rand.Rand) []backend.Range {
	var ranges []backend.Range
	for range r.IntN(4) {
		next := backend.Range{Min: 1 + r.Int64N(30), Multiple: []int64{0, 1, 2, 3, 4, 6, 8, 16}[r.IntN(8)]}
		next.Max = next.Min + r.Int64N(40)
		switch r.IntN(6) {
		case 0:
			next.Max = backend.NoLimit
		case 1:
			next.Min, next.Max = backend.NoLimit-r.Int64N(20), backend.NoLimit
		case 2:
			next.Min = 1
		}
		if !next.Empty() {
			ranges = append(ranges, next)
		}
	}
	return ranges
}

func randomAccepted(r *rand.Rand) [][]backend.Range {
	accepted := make([][]backend.Range, r.IntN(6))
	for i := range accepted {
		accepted[i] = randomRanges(r)
	}
	return accepted
}

// counts are every small byte count, those at and beside every bound, and some random ones.
func counts(r *rand.Rand, accepted [][]backend.Range) []int64 {
	all := []int64{1, 2, backend.NoLimit - 1, backend.NoLimit, 1 << 40}
	for n := int64(1); n <= 100; n++ {
		all = append(all, n, backend.NoLimit-n)
	}
	for _, ranges := range accepted {
		for _, x := range ranges {
			all = append(all, x.Min-1, x.Min, x.Max)
			if x.Max < backend.NoLimit {
				all = append(all, x.Max+1)
			}
		}
	}
	for range 20 {
		all = append(all, 1+r.Int64N(math.MaxInt64-1))
	}
	return slices.DeleteFunc(all, func(n int64) bool { return n < 1 })
}

// first is what Lookup is to give: the first candidate in order that accepts the count.
func first(accepted [][]backend.Range, n int64) int {
	return slices.IndexFunc(accepted, func(ranges []backend.Range) bool {
		return slices.ContainsFunc(ranges, func(x backend.Range) bool { return x.Contains(n) })
	})
}

func TestLookupIsTheFirstThatAccepts(t *testing.T) {
	r := source(t)
	for range 3000 {
		accepted := randomAccepted(r)
		table := dispatch.NewTable(accepted)
		rebuilt := dispatch.TableOf(table.Segments())
		for _, n := range counts(r, accepted) {
			want := first(accepted, n)
			if got := table.Lookup(n); got != want {
				t.Fatalf("%v\n%d bytes: got candidate %d, want %d", accepted, n, got, want)
			}
			if got := rebuilt.Lookup(n); got != want {
				t.Fatalf("%v\n%d bytes: after a rebuild candidate %d, want %d", accepted, n, got, want)
			}
		}
	}
}

// TestTableDescribesItself holds Complete, Chosen and Ranges to what Lookup does with every count. Ranges lie below
// 100 bytes or have no limit; beyond 100, what holds for the next 48 counts (the multiples' common multiple) holds on.
func TestTableDescribesItself(t *testing.T) {
	r := source(t)
	for range 3000 {
		accepted := randomAccepted(r)
		table := dispatch.NewTable(accepted)
		complete, serves := true, map[int]bool{}
		for n := int64(1); n <= 200; n++ {
			for _, n := range []int64{n, backend.NoLimit - n + 1} {
				i := table.Lookup(n)
				complete = complete && i != dispatch.None
				serves[i] = true
				if i != dispatch.None && !slices.ContainsFunc(table.Ranges(i), func(x backend.Range) bool { return x.Contains(n) }) {
					t.Fatalf("%v\n%d bytes go to candidate %d, whose ranges are %v", accepted, n, i, table.Ranges(i))
				}
			}
		}
		if got := table.Complete(); got != complete {
			t.Fatalf("%v\ncomplete: %v, want %v; segments %v", accepted, got, complete, table.Segments())
		}
		delete(serves, dispatch.None)
		for i := range accepted {
			if got := slices.Contains(table.Chosen(), i); got != serves[i] {
				t.Fatalf("%v\ncandidate %d chosen: %v, serves: %v; segments %v", accepted, i, got, serves[i], table.Segments())
			}
			for _, x := range table.Ranges(i) {
				if err := x.Validate(); err != nil {
					t.Fatalf("%v\ncandidate %d: %v", accepted, i, err)
				}
				for n := x.Min; n <= min(x.Max, 200); n++ {
					if x.Contains(n) && first(accepted[i:i+1], n) == dispatch.None {
						t.Fatalf("%v\ncandidate %d is given %s and never accepted %d", accepted, i, x, n)
					}
				}
			}
		}
	}
}

func TestTableExamples(t *testing.T) {
	upTo := func(n, multiple int64) []backend.Range {
		return []backend.Range{{Min: 1, Max: n, Multiple: multiple}}
	}
	largest := []backend.Range{{Min: backend.NoLimit, Max: backend.NoLimit, Multiple: 7}} // 7 divides 2^63 - 1
	for _, c := range []struct {
		name     string
		accepted [][]backend.Range
		want     []dispatch.Segment
		complete bool
	}{
		{"nobody", nil, []dispatch.Segment{{Max: backend.NoLimit}}, false},
		{"small and the rest", [][]backend.Range{upTo(100, 0), backend.AllBytes()}, []dispatch.Segment{
			{Max: 100, Choices: []dispatch.Choice{{Index: 0}}}, {Max: backend.NoLimit, Choices: []dispatch.Choice{{Index: 1}}},
		}, true},
		{"shadowed", [][]backend.Range{backend.AllBytes(), upTo(100, 0)}, []dispatch.Segment{
			{Max: backend.NoLimit, Choices: []dispatch.Choice{{Index: 0}}},
		}, true},
		{"multiples shadowed by their divisor", [][]backend.Range{upTo(backend.NoLimit, 4), upTo(backend.NoLimit, 8), backend.AllBytes()}, []dispatch.Segment{
			{Max: backend.NoLimit, Choices: []dispatch.Choice{{Multiple: 4, Index: 0}, {Index: 2}}},
		}, true},
		{"only multiples", [][]backend.Range{upTo(backend.NoLimit, 4)}, []dispatch.Segment{
			{Max: backend.NoLimit, Choices: []dispatch.Choice{{Multiple: 4, Index: 0}}},
		}, false},
		{"nothing left beyond the largest", [][]backend.Range{largest, upTo(backend.NoLimit-1, 0)}, []dispatch.Segment{
			{Max: backend.NoLimit - 1, Choices: []dispatch.Choice{{Index: 1}}},
			{Max: backend.NoLimit, Choices: []dispatch.Choice{{Multiple: 7, Index: 0}}},
		}, true},
		{"impossible ranges serve nothing", [][]backend.Range{{{Min: 9, Max: 3}, {}, {Min: -8, Max: -2}}}, []dispatch.Segment{{Max: backend.NoLimit}}, false},
	} {
		table := dispatch.NewTable(c.accepted)
		if diff := cmp.Diff(c.want, table.Segments()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if got := table.Complete(); got != c.complete {
			t.Errorf("%s: complete is %v", c.name, got)
		}
	}
	across := dispatch.NewTable([][]backend.Range{upTo(100, 16), backend.AllBytes()})
	if diff := cmp.Diff(backend.AllBytes(), across.Ranges(1), cmp.Comparer(sameRange)); diff != "" {
		t.Errorf("ranges across segments are not joined (-want +got):\n%s", diff)
	}
}

func sameRange(a, b backend.Range) bool {
	return a.Min == b.Min && a.Max == b.Max && max(a.Multiple, 1) == max(b.Multiple, 1)
}

func TestLookupDoesNotAllocate(t *testing.T) {
	table := dispatch.NewTable([][]backend.Range{{{Min: 1, Max: 1 << 16, Multiple: 16}}, backend.AllBytes()})
	sum := 0
	if n := testing.AllocsPerRun(100, func() { sum += table.Lookup(14 << 10) }); n != 0 || sum != 0 {
		t.Errorf("%v allocations, candidates summing to %d", n, sum)
	}
}
