package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/worker"
	"github.com/weir-project/weir/tests/await"
)

// TestGoodBackends: no rule is broken by backends that are right, and only those about processes are skipped.
func TestGoodBackends(t *testing.T) {
	for name, b := range map[string]backend.Backend{"schedule": newFake(), "worker": newFakeWorker(worker.Reduce)} {
		t.Run(name, func(t *testing.T) {
			for _, x := range Run(t.Context(), Plugin{Backends: []backend.Backend{b}}, Options{}) {
				if x.Outcome == Failed || x.Outcome == Skipped && !strings.Contains(x.Got, "the plugin's process") && !strings.Contains(x.Got, "without a connection") {
					t.Errorf("%+v", x)
				}
			}
		})
	}
}

// TestBrokenBackends: for each rule, backends that break it are caught by it, with words that say how.
func TestBrokenBackends(t *testing.T) {
	for _, c := range breakers() {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			f := newFake()
			c.breakIt(f)
			if err := check(t, f, c.rule); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestEveryRuleIsBroken holds that each rule has a backend that breaks it; those about processes have programs in tests/.
func TestEveryRuleIsBroken(t *testing.T) {
	broken := map[string]bool{}
	for _, c := range breakers() {
		broken[c.rule] = true
	}
	for _, c := range workerBreakers() {
		broken[c.rule] = true
	}
	for _, c := range deviceBreakers {
		broken[c.rule] = true
	}
	broken["accept/unknown-backend"] = true // TestUnknownIsRefused
	broken["accept/nonsense"] = true        // TestNonsenseIsSurvived
	for _, r := range Rules() {
		if !r.Process && !broken[r.Name] {
			t.Errorf("no backend breaks %s", r.Name)
		}
		delete(broken, r.Name)
	}
	for name := range broken {
		t.Errorf("there is no rule %s", name)
	}
}

// testDeadline is the suite's in tests of it: what is right must keep to it, what is late must not.
var testDeadline = await.For(200 * time.Millisecond)

// late is longer than a call may take.
func late() { time.Sleep(3 * testDeadline) }

// check holds a backend to one rule.
func check(t *testing.T, b backend.Backend, rule string) error {
	t.Helper()
	for _, r := range rules {
		if r.Name == rule {
			s := newSuite(t.Context(), Plugin{Backends: []backend.Backend{b}}, b)
			s.deadline = testDeadline
			return s.hold(r)
		}
	}
	t.Fatalf("no rule %q", rule)
	return nil
}

// TestGPUBackend holds a backend with every requirement, whose plan is not run, to the rules that concern it.
func TestGPUBackend(t *testing.T) {
	f := newFake()
	f.info.Kind = plan.LibraryKind
	f.info.Requirements = backend.Requirements{
		WorldSizes: backend.Exactly(2, 4, 8), Memories: []collective.Memory{collective.CUDA}, Scope: backend.OneHost,
		Links: []topology.Class{topology.NVLink}, P2P: topology.P2PVerified, Multicast: true, Capabilities: []string{"9.0+"},
		Platforms: []string{"linux/amd64"}, Driver: "550", Libraries: []collective.Library{{Name: "nccl", Version: "2.27"}},
		Windows:  []backend.Window{{Capability: "9.0", Range: backend.Range{Min: 16, Max: 1 << 20}}},
		Multiple: 16, Alignment: 16, Placement: collective.OutOfPlace, Modes: []backend.Mode{backend.Eager}, InFlight: 1,
	}
	f.plan = func(int) (plan.Plan, error) {
		return &plan.Library{Path: "/usr/lib/libnccl.so.2", Version: "2.28", Variant: "nccl"}, nil
	}
	for _, x := range Run(t.Context(), Plugin{Backends: []backend.Backend{f}, NoDevice: "this is a test"}, Options{}) {
		if x.Outcome == Failed {
			t.Errorf("%+v", x)
		}
		if x.Rule == "results/exact" && !strings.Contains(x.Got, "a library is run on GPUs: this is a test") {
			t.Errorf("%+v", x)
		}
	}
	if n := len(newSuite(t.Context(), Plugin{}, f).violations()); n != 16 {
		t.Errorf("%d violations were tried", n)
	}
}

// TestUnknownIsRefused: see lax.
func TestUnknownIsRefused(t *testing.T) {
	if err := check(t, lax{newFake()}, "accept/unknown-backend"); err == nil || !strings.Contains(err.Error(), "no-such-backend was answered") {
		t.Errorf("got %v", err)
	}
}

// TestNonsenseIsSurvived: see lax.
func TestNonsenseIsSurvived(t *testing.T) {
	f := newFake()
	dead := false
	f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
		if dead = dead || !r.Class.DataType.Valid(); dead {
			return backend.Verdict{}, errors.New("the connection is closed")
		}
		return backend.Accepted(backend.AllBytes()...), nil
	}
	if err := check(t, lax{f}, "accept/nonsense"); err == nil || !strings.Contains(err.Error(), "the connection is closed") {
		t.Errorf("got %v", err)
	}
	if err := check(t, lax{newFake()}, "accept/nonsense"); err != nil {
		t.Error(err)
	}
}

// lax is a connection to a backend that does not look at the name.
type lax struct{ *fake }

func (l lax) As(backend.Info) backend.Backend { return l }

// TestKernelBackend holds that kernels that are right pass.
func TestKernelBackend(t *testing.T) {
	f := newFake()
	kernelPlan(func(*plan.Kernel) {})(f)
	for _, rule := range []string{"plan/valid", "plan/serves", "plan/image", "accept/honest"} {
		if err := check(t, f, rule); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
