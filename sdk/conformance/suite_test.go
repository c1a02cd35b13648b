package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/topology"
)

func TestRun(t *testing.T) { Run(t, newFake()) }

// TestBrokenBackends: for each rule, backends that break it are caught by it, with words that say how.
func TestBrokenBackends(t *testing.T) {
	for _, c := range []struct {
		name, rule, want string
		breakIt          func(*fake)
	}{
		{"upper case", "info", `name "Fake"`, func(f *fake) { f.info.Name = "Fake" }},
		{"no description", "info", "one line", func(f *fake) { f.info.Description = "" }},
		{"two lines", "info", "one line", func(f *fake) { f.info.Description = "a\nb" }},
		{"unknown kind", "info", "unknown kind", func(f *fake) { f.info.Kind = "magic" }},
		{"worker without methods", "info", "Attach", func(f *fake) { f.info.Kind = plan.WorkerKind }},
		{"restless info", "info", "different answers", func(f *fake) { f.again = func() { f.info.Priority++ } }},
		{"impossible span", "info", "world sizes 4 to 2", func(f *fake) { f.info.Requirements.WorldSizes = []backend.Span{{Min: 4, Max: 2}} }},
		{"impossible window", "info", "byte window", func(f *fake) { f.info.Requirements.Windows = []backend.Window{{}} }},
		{"negative multiple", "info", "multiple is -4", func(f *fake) { f.info.Requirements.Multiple = -4 }},

		{"GPU needs on host memory", "requirements", "driver is looked at only", func(f *fake) { f.info.Requirements.Driver = "550" }},
		{"P2P on host memory", "requirements", "peer-to-peer access is looked at only", func(f *fake) { f.info.Requirements.P2P = topology.P2PVerified }},
		{"world without window", "requirements", "world size 3", func(f *fake) {
			f.info.Requirements.Windows = []backend.Window{{WorldSizes: backend.Span{Min: 2, Max: 2}, Range: backend.AllBytes()[0]}, {WorldSizes: backend.Span{Min: 4, Max: 4}, Range: backend.AllBytes()[0]}}
		}},
		{"never met", "requirements", "no group and class", func(f *fake) { f.info.Requirements.Modes = []backend.Mode{backend.Captured} }},

		{"declines what it advertises", "accept", "DTYPE", func(f *fake) { f.accept = declineFor(collective.BFloat16) }},
		{"GPU library that does so", "accept", "what they should say: DTYPE", func(f *fake) {
			f.info.Kind = plan.LibraryKind
			f.accept = declineFor(collective.BFloat16)
		}},
		{"error", "accept", "no mood", func(f *fake) {
			f.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				return backend.Verdict{}, errors.New("no mood")
			}
		}},
		{"acceptance of nothing", "accept", "invalid verdict", func(f *fake) { f.accept = always(backend.Verdict{Kind: backend.Accept}) }},
		{"outside its windows", "accept", "outside its own windows", func(f *fake) {
			f.info.Requirements.Windows = []backend.Window{{Range: backend.Range{Min: 1, Max: 100}}}
			f.accept = always(backend.Accepted(backend.Range{Min: 200, Max: 300}))
		}},

		{"changes its mind", "repeatable", "asked again", func(f *fake) {
			var n atomic.Int64
			f.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				return backend.Accepted(backend.Range{Min: n.Add(1), Max: 1000}), nil
			}
		}},
		{"changes the facts", "repeatable", "changed the group's facts", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				r.Group.Ranks[0].Driver += "1"
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},

		{"cannot imagine", "hypothetical", "no such process", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Hypothetical {
					return backend.Verdict{}, errors.New("no such process")
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"depends on this machine", "hypothetical", "not this one", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Hypothetical {
					return backend.Declined(backend.Because(backend.InitFailed, "", "")), nil
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},

		{"deaf to its context", "deadline", "Release has not returned", func(f *fake) {
			f.release = func(context.Context, string) error { time.Sleep(400 * time.Millisecond); return nil }
		}},

		{"no plan", "plan", "neither", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return nil, nil } }},
		{"nil plan", "plan", "neither", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return (*plan.Schedule)(nil), nil } }},
		{"another kind", "plan", "advertised is a schedule", func(f *fake) {
			f.plan = func(int) (plan.Plan, error) { return &plan.Worker{SlotBytes: 64, Slots: 1}, nil }
		}},
		{"too few programs", "plan", "2 programs for 3 ranks", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return flat(min(world, 2), nil), nil }
		}},
		{"out of plans", "plan", "out of plans", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return nil, errors.New("out of plans") } }},
		{"no proof", "plan", "reads slot 0 of rank 1, which nobody has written by then", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return hasty(world), nil }
		}},
		{"restless plan", "plan", "different plans", func(f *fake) {
			n := int64(0)
			f.plan = func(world int) (plan.Plan, error) { p := flat(world, nil); n += 64; p.TileBytes += n; return p, nil }
		}},

		{"forgets a rank", "results", "want", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			last(append(r.Slots(0)[1:], schedule.Slot(1, 0)))
		})},
		{"does not divide", "results", "avg", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) {
				p := flat(world, nil)
				for _, program := range p.Programs {
					program[len(program)-1].Final = false
				}
				return p, nil
			}
		}},
		{"reads before the others have written", "results", "want", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return hasty(world), nil }
		}},
		{"writes too early for calls in place", "results", "in place", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			r.Copy(schedule.Out(), schedule.Slot((r.Rank+1)%r.WorldSize, 0), plan.AllChunks)
			srcs := r.Slots(0)
			srcs[r.Rank] = schedule.In() // by now overwritten, if it is the destination
			last(srcs)
		})},
		{"waits for ever", "results", "did not come to signal 1", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(1)
			last(r.Slots(0))
		})},
		{"one chunk is nobody's", "results", "want", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) {
				p := flat(world, nil)
				p.Chunks = 2
				for _, program := range p.Programs {
					program[len(program)-1].Chunk = 0
				}
				return p, nil
			}
		}},

		{"order differs between ranks", "same_bits", "promises the same bits", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			srcs := r.Slots(0)
			last(append(srcs[r.Rank:], srcs[:r.Rank]...))
		})},

		{"fails on strangers", "release", "never saw", func(f *fake) {
			f.release = func(_ context.Context, group string) error { return fmt.Errorf("unknown group %q", group) }
		}},
		{"fails the second time", "release", "release of a group: gone", func(f *fake) {
			released := map[string]bool{}
			f.release = func(_ context.Context, group string) error {
				if released[group] {
					return errors.New("gone")
				}
				released[group] = true
				return nil
			}
		}},
		{"forgets after release", "release", "after the group was released", func(f *fake) {
			f.release = func(_ context.Context, group string) error {
				if strings.HasPrefix(group, "backendtest-") {
					f.plan = func(int) (plan.Plan, error) { return nil, errors.New("unknown group") }
				}
				return nil
			}
		}},
	} {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			f := newFake()
			c.breakIt(f)
			if err := check(t, f, c.rule); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// check holds a backend to one rule.
func check(t *testing.T, b backend.Backend, rule string) error {
	t.Helper()
	for _, r := range rules {
		if r.name == rule {
			s := newSuite(t.Context(), b)
			s.deadline = 200 * time.Millisecond
			return r.check(s)
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
	skipped := map[string]bool{}
	for _, r := range rules {
		err := check(t, f, r.name)
		var skip notApplicable
		switch {
		case errors.As(err, &skip):
			skipped[r.name] = true
		case err != nil:
			t.Errorf("%s: %v", r.name, err)
		}
	}
	if !skipped["results"] || !skipped["same_bits"] || len(skipped) != 2 {
		t.Errorf("skipped %v", skipped)
	}
	if n := len(newSuite(t.Context(), f).violations()); n != 16 {
		t.Errorf("%d violations were tried", n)
	}
}
