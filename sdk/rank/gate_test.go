package rank

import (
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/hostile"
)

// gated is a rank alone in its group, whose agent is the test.
type gated struct {
	t     *testing.T
	agent *rankv1.Conn
	board *rankv1.Board
	group *Group
	sess  *Session
}

// gateDeadline is the group's for who waits to see it pass.
var gateDeadline = await.Lapse(300 * time.Millisecond)

// newGatedAmong is rank 0 of more, which are the test too.
func newGatedAmong(t *testing.T, world int) *gated {
	t.Helper()
	return newGated(t, world, await.For(await.Plenty))
}

func newGated(t *testing.T, world int, deadline time.Duration) *gated {
	t.Helper()
	noLeaks(t)
	file, err := sealed.New("board", rankv1.BoardSize(world))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := sealed.MapAll(file, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		t.Fatal(err)
	}
	x := &gated{t: t, board: rankv1.NewBoard(memory, world)}
	a, b := hostile.Sockets(t)
	x.agent, x.sess = rankv1.NewConn(a), newSession(rankv1.NewConn(b), Options{WorldSize: world})
	x.group, err = x.sess.open(&reply{message: &rankv1.ToRank{Body: &rankv1.ToRank_GroupReady{GroupReady: &rankv1.GroupReady{
		Group: "g1", Facts: pluginv1.FromGroup(collective.HostGroup("g1", world)), Ranks: lo.RangeWithSteps[int32](0, int32(world), 1), DeadlineNs: int64(deadline),
	}}}, files: []sharedFile{{file}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.sess.Close()
		_ = x.agent.Close()
		_ = unix.Munmap(memory)
	})
	return x
}

func (x *gated) send(id uint64, m *rankv1.ToRank) {
	x.t.Helper()
	m.Id = id
	if err := x.agent.Send(m); err != nil {
		x.t.Fatal(err)
	}
}

// receive is the next message of the rank but those about the group.
func (x *gated) receive() *rankv1.FromRank {
	x.t.Helper()
	m := &rankv1.FromRank{}
	if err := x.agent.SetReceiveDeadline(await.By(await.Plenty)); err != nil {
		x.t.Fatal(err)
	}
	if err := x.agent.Receive(m); err != nil {
		x.t.Fatal(err)
	}
	return m
}

// offer has the rank prepare, try and get a plan as an instance.
func (x *gated) offer(id, instance uint64, p plan.Plan) {
	x.t.Helper()
	x.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Prepare{Prepare: &rankv1.Prepare{Instances: []*rankv1.Instance{{
		Id: instance, Backend: "b", Plan: pluginv1.FromPlan(p), Ranges: []*pluginv1.Range{{Min: 1, Max: 1 << 20}},
	}}}}})
	x.receive()
	x.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_SelfTest{SelfTest: &rankv1.SelfTest{DeadlineNs: int64(await.For(await.Plenty))}}})
	if m := x.receive().GetStepDone(); m == nil || len(m.Outcomes) != 1 || m.Outcomes[0].Reason != nil {
		x.t.Fatalf("self-test: %v", m)
	}
	x.send(id, &rankv1.ToRank{Body: &rankv1.ToRank_Commit{Commit: &rankv1.Commit{Epoch: instance, Segments: []*rankv1.Segment{
		{Max: 1 << 62, Choices: []*rankv1.Choice{{Instance: instance, Counter: uint32(instance)}}},
	}}}})
}

// call makes one call and says how long it took.
func (x *gated) call() (time.Duration, error) {
	buf := []float32{1, 2, 3}
	start := time.Now()
	err := AllReduce(x.group, buf, buf, collective.Sum)
	return time.Since(start), err
}

// decided has the rank's class decided, and prepared anew for turn 1.
func decided(t *testing.T, deadline time.Duration) *gated {
	t.Helper()
	x := newGated(t, 1, deadline)
	done := make(chan error, 1)
	go func() { _, err := x.call(); done <- err }()
	id := x.receive().Id
	x.offer(id, 1, allreduce.Flat(1, 4096))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	x.send(rankv1.AgentIDs, &rankv1.ToRank{Body: &rankv1.ToRank_Upgrade{Upgrade: &rankv1.Upgrade{
		Group: "g1", Class: pluginv1.FromClass(collective.Class{DataType: collective.Float32, Op: collective.Sum}), Turn: 1,
	}}})
	x.offer(rankv1.AgentIDs, 2, allreduce.Flat(1, 8192))
	x.receive() // staged
	return x
}

func (x *gated) gate(turn, number uint64) {
	x.t.Helper()
	x.send(rankv1.AgentIDs+1, &rankv1.ToRank{Body: &rankv1.ToRank_Gate{Gate: &rankv1.Gate{Group: "g1", Turn: turn, Number: number}}})
	if m := x.receive().GetStepDone(); m == nil || m.Begun != 1 {
		x.t.Fatalf("gate: %v", m)
	}
}

// TestGateDeadline: an agent that sets the gate and never settles the turn costs a call its group's deadline; then the turn is
// abandoned for all ranks, and calls go on by the old plan.
func TestGateDeadline(t *testing.T) {
	x := decided(t, gateDeadline)
	x.board.OpenTurn(1)
	x.gate(1, 2)
	took, err := x.call()
	if err != nil || took < gateDeadline {
		t.Errorf("the call took %s, %v; want it to wait %s", took, err, gateDeadline)
	}
	if turn, fate := x.board.Turn(); turn != 1 || fate != rankv1.Abandoned {
		t.Errorf("turn %d is %d, want it abandoned", turn, fate)
	}
	if _, err := x.call(); err != nil {
		t.Error(err)
	}
	if calls, _ := x.board.Counter(0, 1); calls != 3 {
		t.Errorf("the old plan made %d calls, want 3", calls)
	}
	if x.board.SettleTurn(1, rankv1.Committed) {
		t.Error("the agent could still commit")
	}
}

// TestGateCommitted: a call that waits at the gate goes on by the new plan.
func TestGateCommitted(t *testing.T) {
	x := decided(t, await.For(await.Plenty))
	x.board.OpenTurn(1)
	x.gate(1, 3)
	if _, err := x.call(); err != nil { // below the gate
		t.Error(err)
	}
	go func() { // once the call has begun
		await.Poll(await.For(await.Plenty), func() bool { return x.board.Number(0) == 3 })
		x.board.SettleTurn(1, rankv1.Committed)
	}()
	if _, err := x.call(); err != nil {
		t.Error(err)
	}
	before, _ := x.board.Counter(0, 1)
	if after, _ := x.board.Counter(0, 2); before != 2 || after != 1 {
		t.Errorf("the old plan made %d calls and the new %d, want 2 and 1", before, after)
	}
	if m := x.receive().GetSwitched(); m == nil || m.Turn != 1 {
		t.Errorf("message %v, want Switched", m)
	}
}

// TestGateOfNoTurn: an agent that sets the gate for a turn that it did not begin is an error, and no hang.
func TestGateOfNoTurn(t *testing.T) {
	x := decided(t, gateDeadline)
	x.gate(7, 2)
	if _, err := x.call(); err == nil || !strings.Contains(err.Error(), "wait for turn 7, but the board is at turn 0") {
		t.Errorf("got %v", err)
	}
}
