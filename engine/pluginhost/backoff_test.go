package pluginhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// fakeStarter begins processes that are none: each lives as long as its behaviour says, in the time of a synctest bubble.
type fakeStarter struct {
	behaviour func(n int) behaviour // of process n, from 0
	changed   atomic.Bool           // the file is not what was checked

	mu      sync.Mutex
	starts  []time.Duration // when, since the first
	first   time.Time
	stopped map[*running]bool
}

// started is when each process was started, since the first.
func (f *fakeStarter) started() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.starts)
}

// begin notes a process that is started, and returns its number.
func (f *fakeStarter) begin(r *running) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first.IsZero() {
		f.first = time.Now()
	}
	f.starts = append(f.starts, time.Since(f.first))
	f.stopped[r] = false
	return len(f.starts) - 1
}

// behaviour is what a process does. The zero value serves until it is stopped.
type behaviour struct {
	up    time.Duration // until it has described itself
	lives time.Duration // from then on; 0 for ever
	fault error         // why it does not come up, or nil
	offer string        // a backend in place of the usual one
	wrong error         // for the user
}

func (f *fakeStarter) check(spec Spec) (binary, error) {
	if f.changed.Load() {
		return binary{}, errors.New("it has another SHA-256")
	}
	return binary{spec: spec, path: spec.Path}, nil
}

func (f *fakeStarter) launch(ctx context.Context, b binary, opts Options) (*running, error) {
	r := newRunning(b, opts)
	does := f.behaviour(f.begin(r))
	r.client = fakeClient{f, r}
	select {
	case <-time.After(does.up):
	case <-ctx.Done():
		r.fault = context.Cause(ctx)
		return r, r.fault
	}
	name := "flat"
	if does.offer != "" {
		name = does.offer
	}
	r.offer = pluginv1.Description{Name: "plugin", Backends: []backend.Info{{Name: name, Kind: plan.ScheduleKind}}}
	if r.fault = does.fault; r.fault == nil {
		r.fault = does.wrong
	}
	if does.lives > 0 {
		time.AfterFunc(does.lives, func() { r.process.end(errors.New("exit status 5")) })
	}
	return r, does.wrong
}

type fakeClient struct {
	starter *fakeStarter
	of      *running
}

func (c fakeClient) Kill() {
	c.starter.mu.Lock()
	defer c.starter.mu.Unlock()
	c.starter.stopped[c.of] = true
}

func (c fakeClient) Client() (goplugin.ClientProtocol, error) { return nil, errors.New("it is a fake") }

// supervised is a slot whose first process serves, and its supervision, which ends with the bubble's test.
func supervised(t *testing.T, policy Restart, does func(n int) behaviour) (*slot, *fakeStarter, *Host) {
	t.Helper()
	f := &fakeStarter{behaviour: does, stopped: map[*running]bool{}}
	opts := Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Restart: policy.complete()}
	b := binary{spec: Spec{Name: "flat", Path: "/plugins/flat"}, path: "/plugins/flat"}
	h := &Host{}
	s := newSlot(h, b, opts)
	s.starter = f
	h.slots = []*slot{s}
	if err := h.startAll(t.Context(), []binary{b}, opts); err != nil {
		t.Fatal(err)
	}
	h.life, h.supervision = context.WithCancel(context.Background())
	h.watch(s)
	t.Cleanup(func() {
		h.Close()
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		for r, stopped := range f.stopped {
			if !stopped || r.life.Err() == nil {
				t.Errorf("process %d is left", r.number)
			}
		}
	})
	return s, f, h
}

func always(b behaviour) func(int) behaviour { return func(int) behaviour { return b } }

func TestBackOff(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	crashes := behaviour{lives: s}
	for name, c := range map[string]struct {
		policy Restart
		does   func(n int) behaviour
		starts []time.Duration
		ends   string // why it is given up
	}{
		"serves on": {does: always(behaviour{}), starts: []time.Duration{0}},
		"as configured by default": {
			does:   always(crashes),
			starts: []time.Duration{0, 1200 * ms, 2600 * ms, 4400 * ms, 7000 * ms, 11200 * ms}, // after a second each, and 200, 400, 800, 1600, 3200 ms
			ends:   "it has ended 6 times in a row and is not started again; the last time: exit status 5",
		},
		"the wait has an end": {
			policy: Restart{First: s, Longest: 3 * s, Most: 4}, does: always(crashes),
			starts: []time.Duration{0, 2 * s, 5 * s, 9 * s, 13 * s}, ends: "ended 5 times in a row",
		},
		"one that was well for long": {
			policy: Restart{First: s, Stable: m, Most: 1},
			does: func(n int) behaviour {
				if n < 3 {
					return behaviour{lives: m + 1}
				}
				return behaviour{}
			},
			starts: []time.Duration{0, m + s + 1, 2*(m+s) + 2, 3*(m+s) + 3},
		},
		"one that was well not quite for long": {
			policy: Restart{First: s, Stable: m, Most: 1}, does: always(behaviour{lives: m}),
			starts: []time.Duration{0, m + s}, ends: "ended 2 times in a row",
		},
		"one that does not come up again": {
			policy: Restart{First: s, Most: 2},
			does: func(n int) behaviour {
				if n == 0 {
					return crashes
				}
				return behaviour{up: 10 * s, fault: errors.New("no device")}
			},
			starts: []time.Duration{0, 2 * s, 14 * s}, ends: "it has ended 3 times in a row and is not started again; the last time: no device",
		},
		"one that comes up late is well": {
			policy: Restart{First: s, Most: 2},
			does: func(n int) behaviour {
				return []behaviour{crashes, {up: 9 * s, fault: errors.New("no device")}, {up: 9 * s}}[n]
			},
			starts: []time.Duration{0, 2 * s, 13 * s},
		},
		"another offer": {
			policy: Restart{First: s},
			does:   func(n int) behaviour { return []behaviour{crashes, {offer: "round"}}[n] },
			starts: []time.Duration{0, 2 * s}, ends: "it now offers plugin: round (schedule); before it was plugin: flat (schedule)",
		},
		"a fault for the user": {
			policy: Restart{First: s},
			does:   func(n int) behaviour { return []behaviour{crashes, {wrong: errors.New("not a Weir plugin")}}[n] },
			starts: []time.Duration{0, 2 * s}, ends: "plugin flat: not a Weir plugin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slot, f, _ := supervised(t, c.policy, c.does)
				time.Sleep(time.Hour)
				synctest.Wait()
				_, restarts, err := slot.current()
				if (err == nil) != (c.ends == "") || err != nil && !strings.Contains(err.Error(), c.ends) {
					t.Errorf("given up: %v; want %q", err, c.ends)
				}
				if err != nil && slot.status().Err != err {
					t.Errorf("status: %v", slot.status().Err)
				}
				if len(f.started()) != len(c.starts) {
					t.Fatalf("started at %s, %d restarts; want %s", f.started(), restarts, c.starts)
				}
				for i, want := range c.starts {
					if f.started()[i] != want {
						t.Errorf("start %d was at %s, want %s", i, f.started()[i], want)
					}
				}
			})
		})
	}
}

// TestChangedFileIsGivenUp at the first restart that finds it.
func TestChangedFileIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot, f, _ := supervised(t, Restart{First: time.Second}, always(behaviour{lives: time.Minute}))
		f.changed.Store(true)
		time.Sleep(time.Hour)
		if _, _, err := slot.current(); err == nil || !strings.Contains(err.Error(), "`weir plugins reload flat` accepts it") || len(f.started()) != 1 {
			t.Errorf("started at %s: %v", f.started(), err)
		}
	})
}

// TestAwaitARestart: who waits for a plugin is told at once that it will not come in time, and at once when it comes.
func TestAwaitARestart(t *testing.T) {
	for patience, c := range map[time.Duration]struct {
		want bool
		took time.Duration
	}{
		10 * time.Second: {true, 5 * time.Second},
		4 * time.Second:  {false, 4 * time.Second}, // it has begun, but is not up
		time.Second:      {false, 0},               // it will not even have begun
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, h := supervised(t, Restart{First: 2 * time.Second}, func(n int) behaviour {
				return []behaviour{{lives: time.Minute}, {up: 3 * time.Second}}[n]
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			if got := h.Await(ctx, "flat"); got != c.want || time.Since(start) != c.took {
				t.Errorf("within %s: %t after %s, want %t after %s", patience, got, time.Since(start), c.want, c.took)
			}
		})
	}
}

// TestCloseInEveryMoment of a restart leaves nothing behind and takes no time.
func TestCloseInEveryMoment(t *testing.T) {
	for when := range 12 {
		synctest.Test(t, func(t *testing.T) {
			_, _, h := supervised(t, Restart{First: 2 * time.Second, Most: 2}, always(behaviour{up: 2 * time.Second, lives: time.Second}))
			time.Sleep(time.Duration(when)*time.Second + time.Nanosecond)
			start := time.Now()
			if h.Close(); time.Since(start) != 0 {
				t.Errorf("after %d s: it took %s", when, time.Since(start))
			}
		})
	}
}

// TestReloadWhileARestartIsDue ends the wait for the restart: the new process is supervised, with nothing against it.
func TestReloadWhileARestartIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot, f, h := supervised(t, Restart{First: time.Hour, Longest: time.Hour, Most: 1}, func(n int) behaviour {
			return []behaviour{{lives: time.Second}, {lives: 30 * time.Minute}, {}}[n]
		})
		time.Sleep(time.Minute)
		r, err := h.Reload(t.Context(), "flat", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Accept(); err != nil {
			t.Fatal(err)
		}
		r.Retire(t.Context())
		time.Sleep(10 * time.Minute)
		if now, restarts, err := slot.current(); now != r.next || restarts != 0 || err != nil {
			t.Errorf("after the reload: %d restarts, %v", restarts, err)
		}
		time.Sleep(2 * time.Hour)
		want := []time.Duration{0, time.Minute, 91 * time.Minute} // which an hour after its end
		if _, restarts, err := slot.current(); len(f.started()) != 3 || f.started()[1] != want[1] || f.started()[2] != want[2] || restarts != 1 || err != nil {
			t.Errorf("started at %s, %d restarts, %v; want %s", f.started(), restarts, err, want)
		}
	})
}
