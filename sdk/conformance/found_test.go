package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/worker"
)

// TestHangIsPaidForOnce: also that of a backend without a connection, which does not look at its context.
func TestHangIsPaidForOnce(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	stuck := newFake()
	stuck.plan = func(int) (plan.Plan, error) { <-never; return nil, nil }
	lazy := newFakeWorker(func(t *worker.Tile) error {
		if t.Call == 3 {
			<-never
		}
		return worker.Reduce(t)
	})
	for name, c := range map[string]struct {
		b                   backend.Backend
		rule, seen, skipped string
		not                 []string
	}{
		"in Plan": {
			stuck, "plan/valid", "Plan: no answer within " + testDeadline.String() + ": it has not returned", "not run: Plan hangs, see plan/valid",
			[]string{"plan/proved", "plan/repeatable", "results/exact", "results/concurrent", "release/harmless"},
		},
		"in a worker's call": {
			lazy, "results/exact", "call number 3: it took longer than", "not run: the worker hangs, see results/exact",
			[]string{"results/concurrent", "worker/calls"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			only := regexp.MustCompile("^(accept|plan|deadline|results|release|worker/calls)")
			got := map[string]string{}
			for _, x := range Run(t.Context(), Plugin{Backends: []backend.Backend{c.b}}, Options{Deadline: testDeadline, Only: only}) {
				got[x.Rule] = x.Got
				if x.Outcome == Failed && x.Rule != c.rule {
					t.Errorf("it breaks %+v too", x)
				}
			}
			if !strings.Contains(got[c.rule], c.seen) {
				t.Errorf("%s: got %q, want %q", c.rule, got[c.rule], c.seen)
			}
			for _, rule := range c.not {
				if got[rule] != c.skipped {
					t.Errorf("%s: got %q, want %q", rule, got[rule], c.skipped)
				}
			}
		})
	}
}
