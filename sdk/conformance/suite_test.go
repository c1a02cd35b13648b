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
	"github.com/weir-project/weir/sdk/worker"
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

type breaker struct {
	name, rule, want string
	breakIt          func(*fake)
}

func breakers() []breaker {
	return []breaker{
		{"upper case", "info/valid", `name "Fake"`, func(f *fake) { f.info.Name = "Fake" }},
		{"no description", "info/valid", "one line", func(f *fake) { f.info.Description = "" }},
		{"two lines", "info/valid", "one line", func(f *fake) { f.info.Description = "a\nb" }},
		{"unknown kind", "info/valid", "unknown kind", func(f *fake) { f.info.Kind = "magic" }},
		{"worker without methods", "info/valid", "Attach", func(f *fake) { f.info.Kind = plan.WorkerKind }},
		{"restless info", "info/valid", "different answers", func(f *fake) { f.again = func() { f.info.Priority++ } }},
		{"impossible span", "info/valid", "world sizes 4 to 2", func(f *fake) { f.info.Requirements.WorldSizes = []backend.Span{{Min: 4, Max: 2}} }},
		{"impossible window", "info/valid", "byte window", func(f *fake) { f.info.Requirements.Windows = []backend.Window{{}} }},
		{"negative multiple", "info/valid", "multiple is -4", func(f *fake) { f.info.Requirements.Multiple = -4 }},

		{"GPU needs on host memory", "info/requirements", "driver is looked at only", func(f *fake) { f.info.Requirements.Driver = "550" }},
		{"P2P on host memory", "info/requirements", "peer-to-peer access is looked at only", func(f *fake) { f.info.Requirements.P2P = topology.P2PVerified }},
		{"world without window", "info/requirements", "world size 3", func(f *fake) {
			f.info.Requirements.Windows = []backend.Window{{WorldSizes: backend.Span{Min: 2, Max: 2}, Range: backend.AllBytes()[0]}, {WorldSizes: backend.Span{Min: 4, Max: 4}, Range: backend.AllBytes()[0]}}
		}},
		{"never met", "info/requirements", "no group and class", func(f *fake) { f.info.Requirements.Modes = []backend.Mode{backend.Captured} }},

		{"declines what it advertises", "accept/honest", "DTYPE", func(f *fake) { f.accept = declineFor(collective.BFloat16) }},
		{"GPU library that does so", "accept/honest", "what they should say: DTYPE", func(f *fake) {
			f.info.Kind = plan.LibraryKind
			f.accept = declineFor(collective.BFloat16)
		}},
		{"error", "accept/honest", "no mood", func(f *fake) {
			f.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				return backend.Verdict{}, errors.New("no mood")
			}
		}},
		{"acceptance of nothing", "accept/honest", "invalid verdict", func(f *fake) { f.accept = always(backend.Verdict{Kind: backend.Accept}) }},
		{"outside its windows", "accept/honest", "outside its own windows", func(f *fake) {
			f.info.Requirements.Windows = []backend.Window{{Range: backend.Range{Min: 1, Max: 100}}}
			f.accept = always(backend.Accepted(backend.Range{Min: 200, Max: 300}))
		}},

		{"changes its mind", "accept/pure", "asked again", func(f *fake) {
			var n atomic.Int64
			f.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				return backend.Accepted(backend.Range{Min: n.Add(1), Max: 1000}), nil
			}
		}},
		{"changes the facts", "accept/pure", "changed the group's facts", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				r.Group.Ranks[0].Driver += "1"
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},

		{"cannot imagine", "hypothetical/answers", "no such process", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Hypothetical {
					return backend.Verdict{}, errors.New("no such process")
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"depends on this machine", "hypothetical/answers", "not this one", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Hypothetical {
					return backend.Declined(backend.Because(backend.InitFailed, "", "")), nil
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},

		{"deaf to its context", "deadline/returns", "Release has not returned", func(f *fake) {
			f.release = func(context.Context, string) error { time.Sleep(400 * time.Millisecond); return nil }
		}},

		{"no plan", "plan/valid", "neither", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return nil, nil } }},
		{"nil plan", "plan/valid", "neither", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return (*plan.Schedule)(nil), nil } }},
		{"another kind", "plan/valid", "advertised is a schedule", func(f *fake) {
			f.plan = func(int) (plan.Plan, error) { return &plan.Worker{SlotBytes: 64, Slots: 1}, nil }
		}},
		{"too few programs", "plan/valid", "2 programs for 3 ranks", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return flat(min(world, 2), nil), nil }
		}},
		{"out of plans", "plan/valid", "out of plans", func(f *fake) { f.plan = func(int) (plan.Plan, error) { return nil, errors.New("out of plans") } }},
		{"no proof", "plan/proved", "reads slot 0 of rank 1, which nobody has written by then", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return hasty(world), nil }
		}},
		{"restless plan", "plan/repeatable", "different plans", func(f *fake) {
			n := int64(0)
			f.plan = func(world int) (plan.Plan, error) { p := flat(world, nil); n += 64; p.TileBytes += n; return p, nil }
		}},

		{"forgets a rank", "results/exact", "want", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			last(append(r.Slots(0)[1:], schedule.Slot(1, 0)))
		})},
		{"does not divide", "results/exact", "avg", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) {
				p := flat(world, nil)
				for _, program := range p.Programs {
					program[len(program)-1].Final = false
				}
				return p, nil
			}
		}},
		{"reads before the others have written", "results/exact", "want", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) { return hasty(world), nil }
		}},
		{"writes too early for calls in place", "results/exact", "in place", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			r.Copy(schedule.Out(), schedule.Slot((r.Rank+1)%r.WorldSize, 0), plan.AllChunks)
			srcs := r.Slots(0)
			srcs[r.Rank] = schedule.In() // by now overwritten, if it is the destination
			last(srcs)
		})},
		{"waits for ever", "results/exact", "did not come to signal 1", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(1)
			last(r.Slots(0))
		})},
		{"one chunk is nobody's", "results/exact", "want", func(f *fake) {
			f.plan = func(world int) (plan.Plan, error) {
				p := flat(world, nil)
				p.Chunks = 2
				for _, program := range p.Programs {
					program[len(program)-1].Chunk = 0
				}
				return p, nil
			}
		}},

		{"order differs between ranks", "results/same-bits", "promises the same bits", broken(func(r *schedule.Rank, last func([]plan.Place)) {
			r.WaitAll(0)
			srcs := r.Slots(0)
			last(append(srcs[r.Rank:], srcs[:r.Rank]...))
		})},

		{"fails on strangers", "release/harmless", "never saw", func(f *fake) {
			f.release = func(_ context.Context, group string) error { return fmt.Errorf("unknown group %q", group) }
		}},
		{"fails the second time", "release/harmless", "release of a group: gone", func(f *fake) {
			released := map[string]bool{}
			f.release = func(_ context.Context, group string) error {
				if released[group] {
					return errors.New("gone")
				}
				released[group] = true
				return nil
			}
		}},
		{"forgets after release", "release/harmless", "after the group was released", func(f *fake) {
			f.release = func(_ context.Context, group string) error {
				if strings.HasPrefix(group, "backendtest-") {
					f.plan = func(int) (plan.Plan, error) { return nil, errors.New("unknown group") }
				}
				return nil
			}
		}},
		{"answers in private", "accept/outside", "another code: WORLD_SIZE", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Class.Op == collective.Max || r.Class.Op == collective.Prod {
					return backend.Declined(backend.Because(backend.WorldSize, "", "")), nil
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"is upset by what it does not serve", "accept/outside", "no such op", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Class.Op == collective.Prod {
					return backend.Verdict{}, errors.New("no such op")
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"is upset by unknown links", "hypothetical/impossible", "index out of range", func(f *fake) {
			f.accept = func(_ context.Context, r backend.Request) (backend.Verdict, error) {
				if r.Group.WorldSize() == 300 {
					return backend.Verdict{}, errors.New("index out of range")
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"remembers what it imagined", "hypothetical/impossible", "asked again", func(f *fake) {
			var n atomic.Int64
			f.accept = func(context.Context, backend.Request) (backend.Verdict, error) {
				return backend.Accepted(backend.Range{Min: n.Add(1), Max: 1000}), nil
			}
		}},
		{"never finds back", "deadline/recovers", "after 32 calls that were cancelled", func(f *fake) {
			var dead atomic.Bool
			f.accept = func(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
				if dead.Load() || ctx.Err() != nil {
					dead.Store(true)
					return backend.Verdict{}, errors.New("the connection is closed")
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"stays in a call", "deadline/recovers", "have not returned", func(f *fake) {
			f.accept = func(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
				if ctx.Err() != nil {
					time.Sleep(400 * time.Millisecond)
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"serves one group", "results/concurrent", "is busy with group", func(f *fake) {
			var held atomic.Pointer[string]
			f.planning = func(r backend.Request) error {
				id := r.Group.ID
				if !held.CompareAndSwap(nil, &id) && *held.Load() != id {
					return fmt.Errorf("is busy with group %s", *held.Load())
				}
				time.Sleep(time.Millisecond)
				return nil
			}
			f.release = func(context.Context, string) error { held.Store(nil); return nil }
		}},

		{"a row is missing", "plan/serves", "no row of the launch table is for float32 of 1004 bytes", kernelPlan(func(k *plan.Kernel) { k.Launches[0].Max = 1000 })},
		{"no image", "plan/image", "neither ELF nor PTX", kernelPlan(func(k *plan.Kernel) { k.Image = []byte("#!/bin/sh") })},
		{"another function", "plan/image", "no function sum", kernelPlan(func(k *plan.Kernel) { k.Image = []byte(strings.ReplaceAll(string(k.Image), "sum(", "sum2(")) })},
		{"too many arguments", "plan/image", "[64 64 64] bits, the launch table gives [64 64]", kernelPlan(func(k *plan.Kernel) {
			k.Image = []byte(strings.Replace(string(k.Image), ".param .u64 b", ".param .u64 b, .param .u64 c", 1))
		})},
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

// check holds a backend to one rule.
func check(t *testing.T, b backend.Backend, rule string) error {
	t.Helper()
	for _, r := range rules {
		if r.Name == rule {
			s := newSuite(t.Context(), Plugin{Backends: []backend.Backend{b}}, b)
			s.deadline = 200 * time.Millisecond
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

// kernelPlan has a backend of kernels, right but for the change.
func kernelPlan(change func(*plan.Kernel)) func(*fake) {
	return func(f *fake) {
		f.info.Kind = plan.KernelKind
		f.info.Requirements.Memories = []collective.Memory{collective.CUDA}
		f.plan = func(int) (plan.Plan, error) {
			k := &plan.Kernel{
				Image:  []byte(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry sum(.param .u64 a, .param .u64 b)\n{ ret; }\n"),
				Buffer: plan.DeviceBuffer, BufferBytes: 1 << 10,
			}
			for _, dt := range f.info.Requirements.DataTypes {
				k.Launches = append(k.Launches, plan.Launch{
					DataType: dt.String(), Min: 1, Max: backend.NoLimit, Function: "sum", Grid: 1, Block: 32, Arguments: []plan.Argument{plan.ArgIn, plan.ArgOut},
				})
			}
			change(k)
			return k, nil
		}
	}
}

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
