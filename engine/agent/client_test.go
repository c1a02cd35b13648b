package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/tests/await"
)

// flat is a backend that accepts everything.
type flat struct{}

func (flat) Info() backend.Info { return backend.Info{Name: "flat", Kind: plan.ScheduleKind} }

func (flat) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

func (flat) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	shape := schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(req.Group.WorldSize(), shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	}), nil
}

func (flat) Release(context.Context, string) error { return nil }

// startAgent starts an agent whose candidates are one backend.
func startAgent(t *testing.T, world int, change func(*Options)) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wa") // a short path, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	plenty := await.For(await.Plenty)
	opts := Options{
		Socket: filepath.Join(dir, "agent.sock"), WorldSize: world, MaxShared: 1 << 24,
		Candidates: func() []dispatch.Candidate {
			return []dispatch.Candidate{{Plugin: "test", Info: flat{}.Info(), Backend: flat{}}}
		},
		JoinDeadline: plenty, CallDeadline: plenty, PrepareDeadline: plenty, SelfTestDeadline: plenty,
		Tracer: telemetry.NewTracer(noop.NewTracerProvider()), Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	a, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// client speaks the protocol as a rank does, or should not.
type client struct {
	t     *testing.T
	conn  *rankv1.Conn
	last  uint64
	group string // of all ranks
}

func dialSocket(t *testing.T, a *Agent) *net.UnixConn {
	t.Helper()
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: a.Socket(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

func dial(t *testing.T, a *Agent) *client {
	t.Helper()
	c := &client{t: t, conn: rankv1.NewConn(dialSocket(t, a))}
	t.Cleanup(c.leave)
	return c
}

// leave ends the connection, as the end of the process would.
func (c *client) leave() {
	_ = c.conn.Close()
	c.conn.Drain()
}

// say sends a message and returns its id.
func (c *client) say(m *rankv1.FromRank) uint64 {
	c.t.Helper()
	if c.last++; m.Id == 0 {
		m.Id = c.last
	}
	if err := c.conn.Send(m); err != nil {
		c.t.Fatal(err)
	}
	return m.Id
}

func (c *client) receive() (*rankv1.ToRank, error) {
	if err := c.conn.SetReceiveDeadline(await.By(await.Plenty)); err != nil {
		return nil, err
	}
	m := &rankv1.ToRank{}
	err := c.conn.Receive(m)
	c.conn.Drain()
	return m, err
}

func (c *client) next() *rankv1.ToRank {
	c.t.Helper()
	m, err := c.receive()
	if err != nil {
		c.t.Fatalf("the agent's answer: %s", err)
	}
	return m
}

// wantFailed wants the next message to be an error, with the words, as the answer to a request. What was prepared for it
// may have to be discarded before.
func (c *client) wantFailed(id uint64, words string) *rankv1.Failed {
	c.t.Helper()
	m := c.next()
	for m.GetDiscard() != nil && m.Id == id {
		m = c.next()
	}
	if f := m.GetFailed(); f == nil || m.Id != id || !strings.Contains(f.Text, words) {
		c.t.Errorf("answer to request %d: %v, want that %d failed with %q", m.Id, m.Body, id, words)
	}
	return m.GetFailed()
}

// wantFault wants the next message to say that a group is dead.
func (c *client) wantFault(group, words string) {
	c.t.Helper()
	m := c.next()
	if f := m.GetGroupFault(); f == nil || m.Id != 0 || f.Group != group || !strings.Contains(f.Text, words) {
		c.t.Errorf("message %v, want the fault of group %s with %q", m, group, words)
	}
}

// wantEnd wants the agent to close the connection. An agent that had not read all sends a reset.
func (c *client) wantEnd() {
	c.t.Helper()
	if m, err := c.receive(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("message %v, error %v, want the end", m, err)
	}
}

func join(rank, world int) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Join{Join: &rankv1.Join{
		Version: rankv1.ProtocolVersion, Rank: int32(rank), WorldSize: int32(world),
		Facts: pluginv1.FromRank(collective.Rank{PID: 1000 + rank}),
	}}}
}

// joined are the ranks of a job that has formed.
func joined(t *testing.T, a *Agent) []*client {
	t.Helper()
	world := a.opts.WorldSize
	clients := lo.Times(world, func(int) *client { return dial(t, a) })
	ids := make([]uint64, world)
	for r, c := range clients {
		ids[r] = c.say(join(r, world))
	}
	for r, c := range clients {
		c.group = c.wantGroup(ids[r], r, world)
	}
	return clients
}

func (c *client) wantGroup(id uint64, rank, size int) string {
	c.t.Helper()
	m := c.next()
	g := m.GetGroupReady()
	if g == nil || m.Id != id || int(g.Rank) != rank || len(g.Ranks) != size {
		c.t.Fatalf("answer %v, want rank %d of a group of %d", m, rank, size)
	}
	return g.Group
}

func newGroupOf(ranks ...int32) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_NewGroup{NewGroup: &rankv1.NewGroup{Ranks: ranks}}}
}

func exchange(group, data string) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Exchange{Exchange: &rankv1.Exchange{Group: group, Data: []byte(data)}}}
}

func resolve(group string, class collective.Class) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Resolve{Resolve: &rankv1.Resolve{Group: group, Class: pluginv1.FromClass(class)}}}
}

func fault(group, text string) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_GroupFault{GroupFault: &rankv1.GroupFault{Group: group, Text: text}}}
}

func leaveGroup(group string) *rankv1.FromRank {
	return &rankv1.FromRank{Body: &rankv1.FromRank_Leave{Leave: &rankv1.Leave{Group: group}}}
}

// report is the answer to Prepare or SelfTest: all went well but for the reasons.
func report(id uint64, instances []uint64, reasons ...*pluginv1.Reason) *rankv1.FromRank {
	return &rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{
		Outcomes: lo.Map(instances, func(i uint64, n int) *rankv1.Outcome {
			o := &rankv1.Outcome{Instance: i}
			if n < len(reasons) {
				o.Reason = reasons[n]
			}
			return o
		}),
	}}}
}

// wantPrepare returns the instances to prepare.
func (c *client) wantPrepare(id uint64) []uint64 {
	c.t.Helper()
	m := c.next()
	if m.GetPrepare() == nil || m.Id != id || len(m.GetPrepare().Instances) == 0 {
		c.t.Fatalf("answer %v, want Prepare for request %d", m, id)
	}
	return lo.Map(m.GetPrepare().Instances, func(i *rankv1.Instance, _ int) uint64 { return i.Id })
}

func (c *client) wantSelfTest(id uint64) {
	c.t.Helper()
	if m := c.next(); m.GetSelfTest() == nil || m.Id != id {
		c.t.Fatalf("answer %v, want SelfTest for request %d", m, id)
	}
}

func (c *client) wantCommit(id uint64) {
	c.t.Helper()
	if m := c.next(); m.GetCommit() == nil || m.Id != id {
		c.t.Fatalf("answer %v, want Commit for request %d", m, id)
	}
}

// follow does what a rank does from Prepare to Commit.
func (c *client) follow(id uint64) {
	c.t.Helper()
	instances := c.wantPrepare(id)
	c.say(report(id, instances))
	c.wantSelfTest(id)
	c.say(report(id, instances))
	c.wantCommit(id)
}

var sum = collective.Class{DataType: collective.Float32, Op: collective.Sum}

// wantServed has the ranks of a group decide a class and exchange bytes.
func wantServed(t *testing.T, group string, class collective.Class, clients ...*client) {
	t.Helper()
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(group, class)) })
	done := make(chan bool)
	for i, c := range clients {
		go func() {
			defer func() { done <- true }()
			c.follow(ids[i])
		}()
	}
	for range clients {
		<-done
	}
	wantExchange(t, group, clients...)
}

func wantExchange(t *testing.T, group string, clients ...*client) {
	t.Helper()
	for i, c := range clients {
		c.say(exchange(group, string(rune('a'+i))))
	}
	for _, c := range clients {
		m := c.next()
		if got := m.GetExchanged(); got == nil || m.Id != c.last || len(got.Data) != len(clients) || string(got.Data[len(clients)-1]) != string(rune('a'+len(clients)-1)) {
			t.Fatalf("exchange: %v", m)
		}
	}
}

// dialRaw is dial, with the socket too, for what the protocol does not allow.
func dialRaw(t *testing.T, a *Agent) (*client, *net.UnixConn) {
	t.Helper()
	socket, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: a.Socket(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: rankv1.NewConn(socket)}
	t.Cleanup(c.leave)
	return c, socket
}

// has reports whether a rank has joined the job that gathers its ranks.
func (a *Agent) has(rank int) bool {
	a.mu.Lock()
	j := a.job
	a.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ranks[rank] != nil
}

// waiting is the number of ranks of a group that wait for a decision or an exchange.
func (a *Agent) waiting(id string) int {
	g, found := lo.Find(a.liveGroups(), func(g *group) bool { return g.id == id })
	if !found {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.asked != nil:
		return len(g.asked.ids)
	case g.round != nil:
		return len(g.round.ids)
	}
	return 0
}

// gone reports whether the agent knows that a rank has left a group.
func (a *Agent) gone(id string, rank int) bool {
	g, found := lo.Find(a.liveGroups(), func(g *group) bool { return g.id == id })
	return !found || g.isGone(rank)
}

// until waits for what the agent does without telling.
func until(t *testing.T, what func() bool) {
	t.Helper()
	await.Until(t, "what the agent does", what)
}
