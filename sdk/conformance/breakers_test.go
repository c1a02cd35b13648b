package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/tests/await"
)

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
			f.release = func(context.Context, string) error { late(); return nil }
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

		{"another order than it says", "results/same-bits", "promises the order of the ranks", func(f *fake) {
			f.info.Requirements.Order = backend.RankOrder
			f.plan = func(world int) (plan.Plan, error) {
				return flat(world, func(r *schedule.Rank, last func([]plan.Place)) {
					r.WaitAll(0)
					srcs := r.Slots(0)
					slices.Reverse(srcs)
					last(srcs)
				}), nil
			}
		}},
		{"an order without a promise", "info/valid", "order of addition", func(f *fake) {
			f.info.Requirements.Order, f.info.Requirements.Deterministic = backend.RankOrder, false
		}},

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
					late()
				}
				return backend.Accepted(backend.AllBytes()...), nil
			}
		}},
		{"serves one group", "results/concurrent", "is busy with group", func(f *fake) {
			var held atomic.Pointer[string]
			var others atomic.Bool
			f.planning = func(r backend.Request) error {
				id := r.Group.ID
				if !held.CompareAndSwap(nil, &id) && *held.Load() != id {
					others.Store(true)
					return fmt.Errorf("is busy with group %s", *held.Load())
				}
				await.Poll(testDeadline/2, others.Load) // the rule has others come meanwhile
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
