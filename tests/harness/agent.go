package harness

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

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
)

// Job is an agent and what it decided.
type Job struct {
	Agent   *agent.Agent
	Socket  string // of an agent in another process
	mu      sync.Mutex
	decided []agent.Resolved
}

// Decided are the decisions so far.
func (j *Job) Decided() []agent.Resolved {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.decided)
}

// StartAgent is an agent in this process, with deadlines that no test reaches unless it changes them.
func StartAgent(t testing.TB, world int, change func(*agent.Options), candidates ...dispatch.Candidate) *Job {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-test") // t.TempDir's path may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	j, plenty := &Job{}, await.For(await.Plenty)
	opts := agent.Options{
		Socket: filepath.Join(dir, "agent.sock"), WorldSize: world, Candidates: func() []dispatch.Candidate { return candidates }, MaxShared: 1 << 30,
		JoinDeadline: plenty, CallDeadline: plenty, PrepareDeadline: plenty, SelfTestDeadline: plenty,
		Tracer: telemetry.NewTracer(noop.NewTracerProvider()), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Decided: func(r agent.Resolved) { j.mu.Lock(); defer j.mu.Unlock(); j.decided = append(j.decided, r) },
	}
	if change != nil {
		change(&opts)
	}
	if j.Agent, err = agent.Listen(opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Agent.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// Each runs f as every rank at once and returns each rank's error.
func (j *Job) Each(t testing.TB, world int, f func(s *rank.Session) error) []error {
	t.Helper()
	errs := make([]error, world)
	socket := j.Socket
	if j.Agent != nil {
		socket = j.Agent.Socket()
	}
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.For(30*time.Second))
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

// NoErrors checks that every rank succeeded.
func NoErrors(t testing.TB, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %s", r, err)
		}
	}
}

// WantErrors checks that every rank's error contains all the words.
func WantErrors(t *testing.T, errs []error, words ...string) {
	t.Helper()
	for r, err := range errs {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("rank %d: error %v, want one with %q", r, err, w)
			}
		}
	}
}

// SumIsRight all-reduces n elements and checks each.
func SumIsRight(g *rank.Group, n int) error {
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
