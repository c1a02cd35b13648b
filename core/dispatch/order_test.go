package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// adds is a backend that promises determinism.
func adds(name string, priority int, order backend.Order, ranges ...backend.Range) dispatch.Candidate {
	c := candidate(name, priority, answering(backend.Accepted(ranges...)))
	c.Info.Requirements.Deterministic, c.Info.Requirements.Order = true, order
	return c
}

// TestOneOrder: in a group that asks for determinism one order of addition serves every size of a class, or nothing does, wherever
// orders give different bits.
func TestOneOrder(t *testing.T) {
	upTo := func(n, multiple int64) backend.Range { return backend.Range{Min: 1, Max: n, Multiple: multiple} }
	from := func(n int64) backend.Range { return backend.Range{Min: n, Max: backend.NoLimit} }
	every := backend.AllBytes()[0]
	promisesNothing := candidate("nccl", -100, answering(all))
	sum := collective.Class{DataType: collective.Float32}
	for _, c := range []struct {
		name       string
		candidates []dispatch.Candidate
		ranks      int
		class      collective.Class
		short      string // who serves 1 KiB and 1 MiB
		long       string
		declined   string // those with DETERMINISM
		unasked    string
	}{
		{"kernels for short messages and nothing of their order for long ones", []dispatch.Candidate{adds("kernel", 9, "rank", upTo(64<<10, 4)), promisesNothing}, 3, sum, "none", "none", "kernel nccl", ""},
		{"two of one order", []dispatch.Candidate{adds("flat", 9, "rank", upTo(16<<10, 1)), adds("twoshot", 8, "rank", from(16<<10+1)), promisesNothing}, 3, sum, "flat", "twoshot", "nccl", ""},
		{"two of one order, of whole elements", []dispatch.Candidate{adds("flat", 9, "rank", upTo(16<<10, 4)), adds("twoshot", 8, "rank", backend.Range{Min: 16<<10 + 1, Max: backend.NoLimit, Multiple: 4})}, 8, sum, "flat", "twoshot", "", ""},
		{"two of no common order", []dispatch.Candidate{adds("a", 9, "", upTo(16<<10, 1)), adds("b", 8, "", from(16<<10+1))}, 3, sum, "none", "none", "a b", ""},
		{"one that serves all after one that does not", []dispatch.Candidate{adds("a", 9, "rank", upTo(16<<10, 1)), adds("ring", 8, "", every), adds("late", 7, "rank", every)}, 3, sum, "ring", "ring", "a", "late"},
		{"the rest of the first's order comes last", []dispatch.Candidate{adds("a", 9, "rank", upTo(16<<10, 1)), adds("b", 8, "tree", upTo(1<<20, 1)), adds("c", 7, "rank", every)}, 3, sum, "a", "c", "b", ""},
		{"two ranks", []dispatch.Candidate{adds("kernel", 9, "rank", upTo(64<<10, 4)), promisesNothing}, 2, sum, "kernel", "nccl", "", ""},
		{"two ranks, avg", []dispatch.Candidate{adds("kernel", 9, "rank", upTo(64<<10, 4)), promisesNothing}, 2, collective.Class{DataType: collective.Float32, Op: collective.Avg}, "none", "none", "kernel nccl", ""},
		{"max", []dispatch.Candidate{adds("kernel", 9, "rank", upTo(64<<10, 4)), promisesNothing}, 8, collective.Class{DataType: collective.Float32, Op: collective.Max}, "kernel", "nccl", "", ""},
		{"integers", []dispatch.Candidate{adds("kernel", 9, "rank", upTo(64<<10, 4)), promisesNothing}, 8, collective.Class{DataType: collective.Int32}, "kernel", "nccl", "", ""},
	} {
		for _, askAll := range []bool{false, true} {
			g := collective.HostGroup("g", c.ranks)
			g.Deterministic = true
			d := dispatch.Resolve(context.Background(), c.candidates, g, c.class, dispatch.Options{AskAll: askAll})
			if short, long := serving(d, 1<<10), serving(d, 1<<20); short != c.short || long != c.long {
				t.Errorf("%s: 1 KiB is served by %s and 1 MiB by %s, want %s and %s: %s", c.name, short, long, c.short, c.long, outcome(d))
			}
			var declined, unasked []string
			for _, a := range d.Answers {
				switch {
				case a.Verdict.Kind == backend.NotAsked:
					unasked = append(unasked, a.Backend)
				case a.Verdict.Kind == backend.Decline && a.Verdict.Reasons[0].Code == backend.Determinism:
					declined = append(declined, a.Backend)
				}
				if err := a.Verdict.Validate(); err != nil && a.Verdict.Kind != backend.NotAsked {
					t.Errorf("%s: %s: %v", c.name, a.Backend, err)
				}
			}
			if got := strings.Join(declined, " "); !askAll && got != c.declined {
				t.Errorf("%s: declined with DETERMINISM: %s, want %s: %s", c.name, got, c.declined, outcome(d))
			}
			if got := strings.Join(unasked, " "); !askAll && got != c.unasked {
				t.Errorf("%s: not asked: %s, want %s", c.name, got, c.unasked)
			}
		}
	}
}

// TestOneOrderSaysWhy: the reasons name what is served and what would be enough.
func TestOneOrderSaysWhy(t *testing.T) {
	g := collective.HostGroup("g", 3)
	g.Deterministic = true
	kernel := adds("kernel", 9, "rank", backend.Range{Min: 1, Max: 64 << 10})
	for _, c := range []struct {
		candidates []dispatch.Candidate
		want       string
	}{
		{[]dispatch.Candidate{kernel}, "kernel: decline; DETERMINISM: one order of addition for 1 B to 64 KiB, needs every size, so that the bits of a sum do not depend on the message's"},
		{[]dispatch.Candidate{kernel, adds("ring", 8, "", backend.AllBytes()...)}, "kernel: decline; DETERMINISM: another order of addition, needs that of ring, in which every size is served | ring: accept all sizes"},
	} {
		d := dispatch.Resolve(context.Background(), c.candidates, g, collective.Class{DataType: collective.Float32}, dispatch.Options{})
		if got := outcome(d); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
