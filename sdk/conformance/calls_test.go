package conformance

import (
	"slices"
	"testing"
)

// TestCallNumbers: 0 twice as ranks try a worker, then every number for a while, and neighbours of powers for ever.
func TestCallNumbers(t *testing.T) {
	all := callNumbers(8)
	if want := []uint64{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 31}; !slices.Equal(all[:len(want)], want) {
		t.Errorf("they begin with %v, want %v", all[:len(want)], want)
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all)-1 {
		t.Errorf("not ascending, or some twice: %v", all)
	}
	for k := range 63 {
		for _, n := range []uint64{1<<k - 1, 1 << k, 1<<k + 1} {
			if !slices.Contains(all, n) {
				t.Errorf("without %d", n)
			}
		}
	}
	if all := callNumbers(everyCall); all[everyCall+1] != everyCall {
		t.Errorf("number %d is where %d should be", all[everyCall+1], everyCall)
	}
}

func TestSizesOfCalls(t *testing.T) {
	if got, want := alternating([]int64{1, 2, 3, 4, 5}), []int64{1, 5, 2, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	sizes := sizesOfCalls([]int64{4, 8, 68}, []int64{4, 4096}, 64)
	for i := 1; i < len(sizes); i++ {
		if sizes[i] == sizes[i-1] {
			t.Errorf("size %d twice in a row, at %d", sizes[i], i)
		}
	}
	if !slices.Contains(sizes, 4096) {
		t.Error("none is longer than a slot")
	}
	if got := sizesOfCalls([]int64{4}, []int64{4}, 3); !slices.Equal(got, []int64{4, 4, 4}) {
		t.Errorf("%v where there is one size only", got)
	}
}
