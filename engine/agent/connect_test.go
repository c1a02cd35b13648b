package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// ncclLike is a backend whose plan is a library.
type ncclLike struct{ flat }

func (ncclLike) Info() backend.Info { return backend.Info{Name: "library", Kind: plan.LibraryKind} }

func (ncclLike) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &plan.Library{Path: "/lib/libnccl.so.2", Version: "2.28.9", Variant: "nccl"}, nil
}

var onDevice = collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}

// libraryAgent is an agent of two ranks whose only candidate is a library.
func libraryAgent(t *testing.T, change func(*Options)) []*client {
	t.Helper()
	a := startAgent(t, 2, func(o *Options) {
		o.Candidates = func() []dispatch.Candidate {
			return []dispatch.Candidate{{Plugin: "test", Info: ncclLike{}.Info(), Backend: ncclLike{}}}
		}
		if change != nil {
			change(o)
		}
	})
	t.Cleanup(func() { _ = a.Close() })
	return joined(t, a)
}

// offer answers Prepare with bytes for the peers.
func (c *client) offer(id uint64, data string) uint64 {
	c.t.Helper()
	instances := c.wantPrepare(id)
	done := report(id, instances)
	done.GetStepDone().Outcomes[0].Data = []byte(data)
	c.say(done)
	return instances[0]
}

// TestProtocolConnect has ranks tell each other what they prepared, between Prepare and SelfTest.
func TestProtocolConnect(t *testing.T) {
	clients := libraryAgent(t, nil)
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(c.group, onDevice)) })
	offers := []string{"of rank 0", ""} // the second has nothing to say, and is told all the same
	instances := lo.Map(clients, func(c *client, r int) uint64 { return c.offer(ids[r], offers[r]) })
	for r, c := range clients {
		m := c.next()
		connect := m.GetConnect()
		if connect == nil || m.Id != ids[r] || connect.DeadlineNs <= 0 || len(connect.Instances) != 1 || connect.Instances[0].Instance != instances[r] {
			t.Fatalf("rank %d: %v, want Connect", r, m)
		}
		if diff := cmp.Diff(offers, lo.Map(connect.Instances[0].Data, func(d []byte, _ int) string { return string(d) })); diff != "" {
			t.Error(diff)
		}
	}
	for r, c := range clients {
		c.say(report(ids[r], instances[r:r+1]))
	}
	for r, c := range clients {
		c.wantSelfTest(ids[r])
		c.say(report(ids[r], instances[r:r+1]))
	}
	for r, c := range clients {
		c.wantCommit(ids[r])
	}
	// From now on a rank that ends without leaving is missed, though it had ended every call: its device had not.
	clients[1].leave()
	clients[0].wantFault(clients[0].group, "rank 1 (process 1001) has ended without having left the group; it began no all-reduce yet")
}

func TestProtocolConnectFails(t *testing.T) {
	clients := libraryAgent(t, nil)
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(c.group, onDevice)) })
	instances := lo.Map(clients, func(c *client, r int) uint64 { return c.offer(ids[r], "x") })
	for r, c := range clients {
		if c.next().GetConnect() == nil {
			t.Fatal("no Connect")
		}
		var reasons []*pluginv1.Reason
		if r == 1 {
			reasons = append(reasons, pluginv1.FromReason(backend.Reason{Code: backend.InitFailed, Text: "no such network"}))
		}
		c.say(report(ids[r], instances[r:r+1], reasons...))
	}
	for r, c := range clients {
		c.wantFailed(ids[r], "library: decline; INIT_FAILED on rank 1 (no such network)")
	}
}

// TestProtocolTrial has a plan with foreign code tried apart from the ranks, before they get it.
func TestProtocolTrial(t *testing.T) {
	clients := libraryAgent(t, func(o *Options) {
		o.Trial = func(ctx context.Context, p plan.Plan, _ []backend.Range, c collective.Class, g collective.Group) error {
			l, ok := p.(*plan.Library)
			if _, bounded := ctx.Deadline(); !bounded || !ok || l.Version != "2.28.9" || c != onDevice || g.WorldSize() != 2 {
				return fmt.Errorf("asked about %v, %s, %v", p, c, g)
			}
			return &backend.Fault{Code: backend.SelfTestFailed, Rank: 1, Err: errors.New("it ends the process")}
		}
	})
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(c.group, onDevice)) })
	for r, c := range clients {
		c.wantFailed(ids[r], "library: decline; SELFTEST_FAILED on rank 1 (it ends the process)")
	}
}

type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *safeBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// TestProtocolLog passes on what a library wrote in a rank, with the rank.
func TestProtocolLog(t *testing.T) {
	var log safeBuffer
	clients := libraryAgent(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, text := range []string{"NCCL INFO hello", "NCCL WARN trouble"} {
		clients[1].say(&rankv1.FromRank{Body: &rankv1.FromRank_Log{Log: &rankv1.Log{Source: "nccl", Text: text}}})
	}
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(exchange(c.group, "x")) })
	for r, c := range clients { // the messages before have been handled
		if m := c.next(); m.GetExchanged() == nil || m.Id != ids[r] {
			t.Fatalf("%v", m)
		}
	}
	for _, want := range []string{
		`level=INFO msg="message of a library" source=nccl rank=1 text="NCCL INFO hello"`,
		`level=WARN msg="message of a library" source=nccl rank=1 text="NCCL WARN trouble"`,
	} {
		if !strings.Contains(log.text(), want) {
			t.Errorf("log %s, want %s", log.text(), want)
		}
	}
}
