package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// fakeDevice is GPUs on which every class has the same outcome.
type fakeDevice struct {
	outcome error
	tried   int
}

func (*fakeDevice) Worlds(advertised func(int) bool) []int {
	var all []int
	for n := range 5 {
		if advertised(n) {
			all = append(all, n)
		}
	}
	return all
}

func (d *fakeDevice) Try(_ context.Context, _ backend.Backend, _ int, classes []collective.Class, _ bool) ([]error, error) {
	outcomes := make([]error, len(classes))
	for i := range outcomes {
		d.tried++
		outcomes[i] = d.outcome
	}
	return outcomes, nil
}

// deviceBreakers are outcomes on a GPU by the rule that finds them.
var deviceBreakers = []struct {
	name, rule, want string
	outcome          error
}{
	{"a wrong sum", "results/exact", "SELFTEST_FAILED (element 3", &Declined{[]backend.Reason{{Code: backend.SelfTestFailed, Rank: 1, Text: "element 3"}}}},
	{"ranks that crash", "results/exact", "signal", errors.New("signal: segmentation fault")},
	{"kernels that stay", "kernel/leaves", "did not end", &Declined{[]backend.Reason{{Code: backend.SelfTestFailed, Rank: 1, Text: "did not end"}}}},
}

func onDevice(t *testing.T, rule string, d *fakeDevice) error {
	t.Helper()
	f := newFake()
	kernelPlan(func(k *plan.Kernel) { k.PollsAbort = true })(f)
	s := newSuite(t.Context(), Plugin{Backends: []backend.Backend{f}, Device: d}, f)
	for _, r := range rules {
		if r.Name == rule {
			return s.hold(r)
		}
	}
	t.Fatalf("no rule %q", rule)
	return nil
}

func TestOnDevice(t *testing.T) {
	for _, c := range deviceBreakers {
		if err := onDevice(t, c.rule, &fakeDevice{outcome: c.outcome}); err == nil || errors.As(err, new(notApplicable)) || !strings.Contains(strings.ReplaceAll(err.Error(), " on rank 1", ""), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	d := &fakeDevice{}
	if err := onDevice(t, "results/exact", d); err != nil || d.tried < 8 {
		t.Errorf("got %v after %d trials", err, d.tried)
	}
	declined := &fakeDevice{outcome: &Declined{[]backend.Reason{backend.Because(backend.LibMissing, "", "libx.so")}}}
	if err := onDevice(t, "results/exact", declined); !errors.As(err, new(notApplicable)) || !strings.Contains(err.Error(), "libx.so") {
		t.Errorf("got %v, want it skipped", err)
	}
}
