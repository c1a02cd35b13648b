package dispatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// TestServed keeps what was measured apart from what is a guess, though the table need not.
func TestServed(t *testing.T) {
	r := func(lo, hi int64, unmeasured bool) backend.Range {
		return backend.Range{Min: lo, Max: hi, Unmeasured: unmeasured}
	}
	first := []backend.Range{r(1, 10, false), r(11, 20, true)}
	second := []backend.Range{r(1, 30, false), r(15, 40, true), r(41, 50, true), r(60, backend.NoLimit, true)}
	d := dispatch.Decision{
		Answers: []dispatch.Answer{{Verdict: backend.Accepted(first...)}, {Verdict: backend.Accepted(second...)}},
		Table:   dispatch.NewTable([][]backend.Range{first, second}),
	}
	if n := len(d.Table.Segments()); n != 4 {
		t.Errorf("%d segments: what is measured changes no choice", n)
	}
	for i, want := range [][]backend.Range{
		first,
		{r(21, 30, false), r(31, 50, true), r(60, backend.NoLimit, true)},
	} {
		if diff := cmp.Diff(want, d.Served(i)); diff != "" {
			t.Errorf("candidate %d (-want +got):\n%s", i, diff)
		}
	}
}
