package conformance

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/worker"
	"github.com/weir-project/weir/tests/await"
)

// fakeWorker is a right worker whose parts a test breaks.
type fakeWorker struct {
	*fake
	attach func(ctx context.Context, group, socket string) error
}

func (f *fakeWorker) Attach(ctx context.Context, group, socket string) error {
	return f.attach(ctx, group, socket)
}

func (f *fakeWorker) Detach(context.Context, string) error { return nil }

func newFakeWorker(do func(*worker.Tile) error) *fakeWorker {
	f := &fakeWorker{fake: newFake(), attach: worker.Server{Do: do}.Attach}
	f.info.Kind = plan.WorkerKind
	f.plan = func(int) (plan.Plan, error) { return &plan.Worker{SlotBytes: 1024, Slots: 2}, nil }
	return f
}

type workerBreaker struct {
	name, rule, want string
	make             func() *fakeWorker
}

func workerBreakers() []workerBreaker {
	var calls atomic.Int64
	return []workerBreaker{
		{"adds nothing", "results/exact", "want", func() *fakeWorker { return newFakeWorker(func(*worker.Tile) error { return nil }) }},
		{"forgets the last element", "results/exact", "want", func() *fakeWorker {
			return newFakeWorker(func(t *worker.Tile) error {
				last := len(t.Out) - t.DataType.Size()
				keep := t.Out[last]
				err := worker.Reduce(t)
				t.Out[last] = keep + 1
				return err
			})
		}},
		{"gives up", "results/exact", "the worker is gone", func() *fakeWorker { return newFakeWorker(func(*worker.Tile) error { return errors.New("no") }) }},
		{"hangs", "results/exact", "it took longer than " + testDeadline.String() + " over a tile", func() *fakeWorker {
			return newFakeWorker(func(*worker.Tile) error { late(); return nil })
		}},
		wrongAt("garbage at the first call", "results/exact", "call number 1: element 0", garbage, func(t *worker.Tile) bool { return t.Call == 1 }),
		wrongAt("garbage at a later call", "results/exact", "call number 5: element 0", garbage, func(t *worker.Tile) bool { return t.Call == 5 }),
		wrongAt("gives up at the first call", "results/exact", "call number 1: the worker is gone", giveUp, func(t *worker.Tile) bool { return t.Call == 1 }),
		wrongAt("hangs at a later call", "results/exact", "call number 5: it took longer than", hang, func(t *worker.Tile) bool { return t.Call == 5 }),
		wrongAt("garbage at a much later call", "worker/calls", "call number 777: element 0", garbage, func(t *worker.Tile) bool { return t.Call == 777 }),
		wrongAt("counts in 32 bits", "worker/calls", "call number 4294967296: element 0", garbage, func(t *worker.Tile) bool { return t.Call > 0 && uint32(t.Call) == 0 }),
		wrongAt("gives up from a number on", "worker/calls", "call number 65536: the worker is gone", giveUp, func(t *worker.Tile) bool { return t.Call > 65535 }),
		wrongAt("hangs at a power of ten", "worker/calls", "call number 100000: it took longer than", hang, func(t *worker.Tile) bool { return t.Call == 100000 }),
		wrongAt("tries well, serves badly", "worker/calls", "call number 1: element 0", garbage, func(t *worker.Tile) bool { return t.Call > 0 }),
		{"garbage after a longer call", "results/exact", "element 0", keepsTheLongest},
		{"garbage after a longer call", "worker/calls", "element 0", keepsTheLongest},
		{"adds in an order of its own", "results/same-bits", "promises the same bits", func() *fakeWorker {
			return newFakeWorker(func(t *worker.Tile) error {
				n := int(calls.Add(1)) % len(t.In)
				t.In = append(append([][]byte{}, t.In[n:]...), t.In[:n]...)
				return worker.Reduce(t)
			})
		}},
		{"serves the last group only", "results/concurrent", "the worker is gone", func() *fakeWorker {
			f := newFakeWorker(nil)
			var last atomic.Pointer[string]
			var others atomic.Bool
			f.attach = func(ctx context.Context, group, socket string) error {
				others.Store(last.Swap(&group) != nil)
				return worker.Server{Do: func(t *worker.Tile) error {
					if *last.Load() != group {
						return errors.New("another group's now")
					}
					await.Poll(testDeadline/2, others.Load) // the rule has others come meanwhile
					return worker.Reduce(t)
				}}.Attach(ctx, group, socket)
			}
			return f
		}},

		{"never connects", "worker/attach", "nobody has connected", func() *fakeWorker {
			f := newFakeWorker(nil)
			f.attach = func(context.Context, string, string) error { return nil }
			return f
		}},
		{"says that all is well", "worker/attach", "a socket that does not exist", func() *fakeWorker {
			f := newFakeWorker(worker.Reduce)
			right := f.attach
			f.attach = func(ctx context.Context, group, socket string) error {
				if strings.HasSuffix(socket, "nobody") {
					return nil
				}
				return right(ctx, group, socket)
			}
			return f
		}},
		{"does not compare records", "worker/disagreement", "the worker completed the tile", func() *fakeWorker { return careless(false) }},
		{"does not look at the stop word", "worker/stops", "still open", func() *fakeWorker { return careless(true) }},
	}
}

// wrongAt is a worker that is right but for some tiles.
func wrongAt(name, rule, want string, wrong func(*worker.Tile) error, at func(*worker.Tile) bool) workerBreaker {
	return workerBreaker{name, rule, want, func() *fakeWorker {
		return newFakeWorker(func(t *worker.Tile) error {
			if at(t) {
				return wrong(t)
			}
			return worker.Reduce(t)
		})
	}}
}

func garbage(t *worker.Tile) error {
	for i := range t.Out {
		t.Out[i] = 0x77
	}
	return nil
}

func giveUp(*worker.Tile) error { return errors.New("no") }

func hang(*worker.Tile) error { late(); return nil }

// keepsTheLongest goes wrong when a tile is shorter than one that its group had before.
func keepsTheLongest() *fakeWorker {
	f := newFakeWorker(nil)
	f.attach = func(ctx context.Context, group, socket string) error {
		longest := 0
		return worker.Server{Do: func(t *worker.Tile) error {
			if len(t.Out) < longest {
				return garbage(t)
			}
			longest = len(t.Out)
			return worker.Reduce(t)
		}}.Attach(ctx, group, socket)
	}
	return f
}

func TestBrokenWorkers(t *testing.T) {
	for _, c := range workerBreakers() {
		t.Run(c.rule+"/"+c.name, func(t *testing.T) {
			if err := check(t, c.make(), c.rule); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// complaining is a process of which the suite needs only its log, which comes late.
type complaining struct {
	Process
	from time.Time
	said []string
}

func (c *complaining) Complaints() []string {
	if time.Now().Before(c.from) {
		return nil
	}
	return c.said
}

// TestWhyAWorkerIsGone: what its log says, though it comes after the connection has ended, or that it says nothing.
func TestWhyAWorkerIsGone(t *testing.T) {
	for want, said := range map[string][]string{
		"; the plugin's log says: no more":                            {"no more", "another group too"},
		"; the plugin's log has no error (--verbose shows all of it)": nil,
	} {
		b := newFakeWorker(func(*worker.Tile) error { return errors.New("no") })
		p := Plugin{Backends: []backend.Backend{b}, Process: &complaining{from: time.Now().Add(await.Lapse(100 * time.Millisecond)), said: said}}
		for _, r := range rules {
			if r.Name != "results/exact" {
				continue
			}
			if got := Check(t.Context(), r, p, b, Options{}); got.Outcome != Failed || !strings.HasSuffix(got.Got, want) {
				t.Errorf("%s %q, want %q at the end", got.Outcome, got.Got, want)
			}
		}
	}
}
