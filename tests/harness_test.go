package tests

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/rank"
)

// fake is a backend in this process whose answers a test chooses.
type fake struct {
	info   backend.Info
	accept func() (backend.Verdict, error)
	plan   func(world int) (plan.Plan, error)
}

func (f *fake) Info() backend.Info { return f.info }

func (f *fake) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	if f.accept == nil {
		return backend.Accepted(backend.AllBytes()...), nil
	}
	return f.accept()
}

func (f *fake) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return f.plan(req.Group.WorldSize())
}

func (f *fake) Release(context.Context, string) error { return nil }

// flat is a right schedule: copy to a slot, signal, wait for all, reduce.
func flat(world int) (plan.Plan, error) {
	return schedule.Build(world, schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	}), nil
}

// wrong is a schedule that leaves out the last rank.
func wrong(world int) (plan.Plan, error) {
	return schedule.Build(world, schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), append(r.Slots(0)[:world-1], schedule.Slot(0, 0)), plan.AllChunks)
	}), nil
}

// hasty is flat whose rank 1 does not wait for rank 0.
func hasty(world int) (plan.Plan, error) {
	p, err := flat(world)
	program := p.(*plan.Schedule).Programs[1]
	for i, t := range program {
		if t.Kind == plan.Wait && t.Rank == 0 {
			p.(*plan.Schedule).Programs[1] = slices.Delete(program, i, i+1)
			break
		}
	}
	return p, err
}

func candidate(name string, f *fake) dispatch.Candidate {
	f.info.Name, f.info.Kind = name, plan.ScheduleKind
	if f.plan == nil {
		f.plan = flat
	}
	return dispatch.Candidate{Plugin: "test", Info: f.info, Backend: f}
}

// job is an agent and what it decided.
type job struct {
	agent   *agent.Agent
	socket  string // of an agent in another process
	mu      sync.Mutex
	decided []agent.Resolved
}

// all are the decisions so far.
func (j *job) all() []agent.Resolved {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.decided)
}

func startAgent(t testing.TB, world int, change func(*agent.Options), candidates ...dispatch.Candidate) *job {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-test") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	j := &job{}
	opts := agent.Options{
		Socket: filepath.Join(dir, "agent.sock"), WorldSize: world, Candidates: func() []dispatch.Candidate { return candidates }, MaxShared: 1 << 30,
		JoinDeadline: 20 * time.Second, CallDeadline: 20 * time.Second, PrepareDeadline: 20 * time.Second, SelfTestDeadline: 20 * time.Second,
		Tracer: telemetry.NewTracer(noop.NewTracerProvider()), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Decided: func(r agent.Resolved) { j.mu.Lock(); defer j.mu.Unlock(); j.decided = append(j.decided, r) },
	}
	if change != nil {
		change(&opts)
	}
	if j.agent, err = agent.Listen(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.agent.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// each runs f as every rank at once and returns each rank's error.
func (j *job) each(t testing.TB, world int, f func(s *rank.Session) error) []error {
	t.Helper()
	errs := make([]error, world)
	socket := j.socket
	if j.agent != nil {
		socket = j.agent.Socket()
	}
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s, err := rank.Join(ctx, rank.Options{Socket: socket, Rank: r, WorldSize: world})
			if err != nil {
				errs[r] = err
				return
			}
			defer s.Close()
			errs[r] = f(s)
		})
	}
	wg.Wait()
	return errs
}

func noErrors(t testing.TB, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %s", r, err)
		}
	}
}

// wantErrors checks that every rank's error contains all the words.
func wantErrors(t *testing.T, errs []error, words ...string) {
	t.Helper()
	for r, err := range errs {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("rank %d: error %v, want one with %q", r, err, w)
			}
		}
	}
}

func sumIsRight(g *rank.Group, n int) error {
	src, dst := make([]float32, n), make([]float32, n)
	for i := range src {
		src[i] = float32(g.Rank() + i%7)
	}
	if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
		return err
	}
	for i := range dst {
		if want := float32(g.Size()*(g.Size()-1)/2 + g.Size()*(i%7)); dst[i] != want {
			return fmt.Errorf("element %d is %v, want %v", i, dst[i], want)
		}
	}
	return nil
}
