package agent

import (
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

func TestProtocolFaults(t *testing.T) {
	check(t, map[string]row{
		"GroupFault of a member": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			waits := c[1].say(exchange(c[0].group, ""))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			c[0].say(fault(c[0].group, "out of paper"))
			c[0].say(fault(c[0].group, "and of ink")) // the first one stays
			for _, m := range c {
				m.wantFault(c[0].group, "out of paper")
			}
			c[1].wantFailed(waits, "out of paper")
			for _, m := range c {
				for _, request := range []*rankv1.FromRank{resolve(c[0].group, sum), exchange(c[0].group, "")} {
					if f := m.wantFailed(m.say(request), "out of paper"); f.GetGroup() != c[0].group {
						t.Errorf("the answer does not say that the group is dead: %v", f)
					}
				}
			}
			ids := []uint64{c[0].say(newGroupOf(0, 1)), c[1].say(newGroupOf(0, 1))}
			next := c[0].wantGroup(ids[0], 0, 2)
			c[1].wantGroup(ids[1], 1, 2)
			wantServed(t, next, sum, c...) // other groups go on
		}},
		"ranks disagree": {world: 3, run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			until(t, func() bool { return a.waiting(c[0].group) == 2 })
			ids = append(ids, c[2].say(resolve(c[0].group, collective.Class{Op: collective.Max})))
			words := "ranks disagree: ranks 0, 1 called host float32 sum eager, rank 2 called host float32 max eager"
			for r, m := range c {
				m.wantFault(c[0].group, words)
				m.wantFailed(ids[r], words)
			}
		}},
		"a rank that leaves twice": {world: 3, run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			waits := c[0].say(resolve(c[0].group, sum))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			c[1].say(leaveGroup(c[0].group))
			c[1].say(leaveGroup(c[0].group))
			c[0].wantFailed(waits, "rank 1 has left the group")
			c[0].wantFailed(c[0].say(resolve(c[0].group, sum)), "rank 1 has left the group")
			for _, m := range c {
				m.say(leaveGroup(c[0].group))
				m.say(leaveGroup(c[0].group))
			}
			for _, m := range c {
				m.wantGroup(m.say(newGroupOf(int32(m.rank(c)))), 0, 1)
			}
		}},
		"one rank cannot prepare": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			c[0].say(report(ids[0], c[0].wantPrepare(ids[0])))
			reason := pluginv1.FromReason(backend.Reason{Code: backend.InitFailed, Text: "no paper"})
			instances := c[1].wantPrepare(ids[1])
			c[1].say(report(ids[1], instances, reason))
			for r, m := range c {
				if d := m.next().GetDiscard(); d == nil || len(d.Instances) != 1 || d.Instances[0] != instances[0] {
					t.Errorf("rank %d is told %v, want to discard %v", r, d, instances)
				}
				m.wantFailed(ids[r], "INIT_FAILED on rank 1 (no paper)")
			}
			wantServed(t, c[0].group, collective.Class{Op: collective.Max}, c...)
		}},
		"a reason that does not exist": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			for r, m := range c {
				instances := m.wantPrepare(ids[r])
				m.say(report(ids[r], instances))
			}
			for r, m := range c {
				m.wantSelfTest(ids[r])
				m.say(report(ids[r], []uint64{1}, &pluginv1.Reason{Code: "TIRED"}))
			}
			for r, m := range c {
				if m.next().GetDiscard() == nil {
					t.Error("not told to discard")
				}
				m.wantFailed(ids[r], "TIRED")
			}
		}},
	})
}

func (c *client) rank(clients []*client) int { return lo.IndexOf(clients, c) }

// TestEndsInTurn: a rank that ended after others goes once they have gone, and is not held up for long by one that does not.
func TestEndsInTurn(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		goes []time.Duration // when each rank that ended before goes
		took time.Duration
	}{
		"the first":                {nil, 0},
		"they have gone":           {[]time.Duration{0, 0}, 0},
		"the last goes after all":  {[]time.Duration{100 * time.Millisecond, 400 * time.Millisecond}, 400 * time.Millisecond},
		"one of them does not go":  {[]time.Duration{100 * time.Millisecond, never}, leavePatience / 4},
		"they wait no longer each": {[]time.Duration{never, never, never}, leavePatience / 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			j, m := &job{}, &member{left: make(chan struct{})}
			for _, after := range c.goes {
				first := &member{left: make(chan struct{})}
				j.ended = append(j.ended, first)
				time.AfterFunc(after, func() { close(first.left) })
			}
			synctest.Wait()
			j.ended = append(j.ended, m, &member{left: make(chan struct{})}) // and one that ended after it
			start := time.Now()
			if j.inTurn(m); time.Since(start) != c.took {
				t.Errorf("%s: it waited %s, want %s", name, time.Since(start), c.took)
			}
		})
	}
}

func TestProtocolDisconnects(t *testing.T) {
	check(t, map[string]row{
		"after Join": {world: 3, run: func(t *testing.T, a *Agent) {
			first, second := dial(t, a), dial(t, a)
			first.say(join(0, 3))
			id := second.say(join(1, 3))
			until(t, func() bool { return a.has(0) && a.has(1) })
			first.leave()
			second.wantFailed(id, "1 of 3 ranks asked to join: rank 0 (process 1000) has ended")
		}},
		"before Join": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			id := c.say(join(0, 2))
			until(t, func() bool { return a.has(0) })
			dial(t, a).leave()
			a.RankExited(-1, "no such rank")
			a.RankExited(2, "no such rank")
			a.RankExited(1, "rank 1 exited with code 7")
			c.wantFailed(id, "1 of 2 ranks asked to join: rank 1 exited with code 7")
		}},
		"in Exchange": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			id := c[0].say(exchange(c[0].group, ""))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			c[1].leave()
			c[0].wantFailed(id, "rank 1 (process 1001) has ended")
			c[0].wantFailed(c[0].say(exchange(c[0].group, "")), "rank 1 has left the group")
		}},
		"after another that ended first": {world: 3, run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			id := c[2].say(resolve(c[0].group, sum))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			a.RankExited(1, "rank 1 was killed by signal 9 (killed)")
			a.RankExited(0, "rank 0 exited with code 1")
			c[0].leave() // waits its turn: see TestEndsInTurn
			c[1].leave()
			c[2].wantFailed(id, "rank 1 was killed by signal 9 (killed)")
			until(t, func() bool { return a.gone(c[0].group, 0) })
			if lost := a.Lost(); !slices.Equal(lost, []int{1, 0}) {
				t.Errorf("lost %v, want rank 1 and then rank 0", lost)
			}
		}},
		"in its own Exchange": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[1].say(exchange(c[0].group, ""))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			c[1].leave()
			until(t, func() bool { return a.waiting(c[0].group) == 0 })
			c[0].wantFailed(c[0].say(exchange(c[0].group, "")), "rank 1 has left the group")
		}},
		"in Resolve": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			id := c[0].say(resolve(c[0].group, sum))
			until(t, func() bool { return a.waiting(c[0].group) == 1 })
			c[1].leave()
			c[0].wantFailed(id, "rank 1 (process 1001) has ended")
		}},
		"between Prepare and StepDone": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			c[0].say(report(ids[0], c[0].wantPrepare(ids[0])))
			c[1].wantPrepare(ids[1])
			c[1].leave()
			c[0].wantFault(c[0].group, "rank 1 ")
			c[0].wantFailed(ids[0], "rank 1 ")
		}},
		"before its SelfTest report": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			for r, m := range c {
				m.say(report(ids[r], m.wantPrepare(ids[r])))
			}
			c[0].wantSelfTest(ids[0])
			c[1].wantSelfTest(ids[1])
			c[1].leave()
			c[0].wantFault(c[0].group, "rank 1 ")
			c[0].wantFailed(ids[0], "rank 1 ")
			until(t, func() bool { return a.gone(c[0].group, 1) })
			c[0].wantFailed(c[0].say(resolve(c[0].group, sum)), "rank 1 ")
		}},
		"inside a message": {run: func(t *testing.T, a *Agent) {
			first := dial(t, a)
			second, raw := dialRaw(t, a)
			ids := []uint64{first.say(join(0, 2)), second.say(join(1, 2))}
			group := first.wantGroup(ids[0], 0, 2)
			second.wantGroup(ids[1], 1, 2)
			id := first.say(newGroupOf(1, 0))
			if _, err := raw.Write(binary.LittleEndian.AppendUint32(nil, 1000)); err != nil {
				t.Fatal(err)
			}
			second.leave()
			first.wantFailed(id, "rank 1 (process 1001) was cut off: unexpected EOF")
			until(t, func() bool { return a.gone(group, 1) })
		}},
		"garbage from a rank": {run: func(t *testing.T, a *Agent) {
			first := dial(t, a)
			second, raw := dialRaw(t, a)
			ids := []uint64{first.say(join(0, 2)), second.say(join(1, 2))}
			group := first.wantGroup(ids[0], 0, 2)
			second.wantGroup(ids[1], 1, 2)
			id := first.say(resolve(group, sum))
			until(t, func() bool { return a.waiting(group) == 1 })
			if _, err := raw.Write([]byte{4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}); err != nil {
				t.Fatal(err)
			}
			second.wantEnd()
			first.wantFailed(id, "rank 1 (process 1001) was cut off: ")
		}},
	})
}
