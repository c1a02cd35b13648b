package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/samber/lo"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// row is a process that does not keep to the protocol, or ends.
type row struct {
	world   int // 0: two
	options func(*Options)
	run     func(t *testing.T, a *Agent)
}

// check runs each row against an agent of its own, which then must serve another job and close without a trace.
func check(t *testing.T, rows map[string]row) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			a := startAgent(t, max(r.world, 2), r.options)
			defer a.Close()
			t.Run("first", func(t *testing.T) { r.run(t, a) }) // its clients leave at its end
			clients := joined(t, a)
			wantServed(t, clients[0].group, sum, clients...)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			for _, c := range clients {
				c.wantEnd()
			}
		})
	}
}

func TestProtocolStrangers(t *testing.T) {
	check(t, map[string]row{
		"first message not Join": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			c.wantFailed(c.say(exchange("g1", "")), "the first message must be Join")
			c.wantEnd()
		}},
		"host name that is too long": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			m := join(0, 2)
			m.GetJoin().Facts.Host = strings.Repeat("h", 256)
			c.wantFailed(c.say(m), "host name of 256 bytes, at most 255")
			c.wantEnd()
		}},
		"more than a Join": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			m := join(0, 2)
			m.GetJoin().Facts.Host = strings.Repeat("h", rankv1.MaxJoin)
			c.say(m)
			c.wantFailed(0, "bytes, at most 65536 before it has joined")
			c.wantEnd()
		}},
		"says how long it will be": {run: func(t *testing.T, a *Agent) {
			c, raw := dialRaw(t, a)
			if _, err := raw.Write([]byte{0, 0, 64, 0}); err != nil { // 4 MiB
				t.Fatal(err)
			}
			c.wantFailed(0, "message of 4194304 bytes, at most 65536 before it has joined")
			c.wantEnd()
		}},
		"descriptors with Join": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			if err := c.conn.Send(join(0, 2), null); err != nil {
				t.Fatal(err)
			}
			c.wantEnd()
		}},
		"more after Join": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].wantFailed(c[0].say(exchange("none", strings.Repeat("x", 2*rankv1.MaxJoin))), "none")
		}},
		"empty message": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			c.wantFailed(c.say(&rankv1.FromRank{}), "the first message must be Join")
			c.wantEnd()
		}},
		"another version": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			m := join(0, 2)
			m.GetJoin().Version = 99
			c.wantFailed(c.say(m), "version 99 of the rank protocol and this agent version 1")
			c.wantEnd()
		}},
		"impossible facts": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			m := join(0, 2)
			m.GetJoin().Facts = &pluginv1.Rank{Device: &pluginv1.Device{Index: -1}}
			c.wantFailed(c.say(m), "facts: ")
			c.wantEnd()
		}},
		"another world size": {run: func(t *testing.T, a *Agent) {
			c := dial(t, a)
			c.wantFailed(c.say(join(0, 3)), "serves 2 ranks, not 3")
			c.wantEnd()
		}},
		"no such rank": {run: func(t *testing.T, a *Agent) {
			for _, rank := range []int{2, 1 << 30} {
				c := dial(t, a)
				c.wantFailed(c.say(join(rank, 2)), "of 2 does not exist")
				c.wantEnd()
			}
		}},
		"fifty that say nothing": {run: func(t *testing.T, a *Agent) {
			for range 50 {
				dial(t, a)
			}
			clients := joined(t, a) // while they are there
			wantServed(t, clients[0].group, sum, clients...)
		}},
		"garbage": {run: func(t *testing.T, a *Agent) {
			for stream, want := range map[string]string{
				"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n": "message of 542393671 bytes", "\x04\x00\x00\x00\xff\xff\xff\xff": "", "\xff\xff\xff\xff": "message of 4294967295 bytes",
			} {
				c, raw := dialRaw(t, a)
				if _, err := raw.Write([]byte(stream)); err != nil {
					t.Fatal(err)
				}
				if len(stream) > 10 { // the length that the words look like is that of a huge message
					_ = raw.CloseWrite()
				}
				if want != "" {
					c.wantFailed(0, want)
				}
				c.wantEnd()
			}
		}},
	})
}

func TestProtocolRequests(t *testing.T) {
	check(t, map[string]row{
		"second Join": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].wantFailed(c[0].say(join(0, 2)), "this process has joined already")
			c[0].wantFailed(c[0].say(join(1, 2)), "this process has joined already")
			wantServed(t, c[0].group, sum, c...)
		}},
		"any rank": {world: 3, run: func(t *testing.T, a *Agent) {
			c := lo.Times(4, func(int) *client { return dial(t, a) })
			ids := make([]uint64, 3)
			got := []int{2, 0, 1} // the first one's wish is free, the second's is not, and the third's does not exist
			for i, wish := range []int{2, 2, 7} {
				ids[i] = c[i].say(join(rankv1.AnyRank(wish), 3))
				until(t, func() bool { return i == 2 || a.has(got[i]) })
			}
			for i, rank := range got {
				c[i].group = c[i].wantGroup(ids[i], rank, 3)
			}
			c[3].wantFailed(c[3].say(join(rankv1.AnyRank(0), 3)), "all 3 ranks of the agent are processes already")
			wantServed(t, c[0].group, sum, c[1], c[2], c[0])
		}},
		"unknown message": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].wantFailed(c[0].say(&rankv1.FromRank{}), "unknown message")
			wantServed(t, c[0].group, sum, c...)
		}},
		"unknown group": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].wantFailed(c[0].say(exchange("g99", "")), `there is no group "g99"`)
			c[0].wantFailed(c[0].say(resolve("", sum)), `there is no group ""`)
			c[0].say(fault("g99", "not mine"))
			c[0].say(leaveGroup("g99"))
			wantServed(t, c[0].group, sum, c...)
		}},
		"not in the group": {world: 3, run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			var pair string
			ids := []uint64{c[1].say(newGroupOf(1, 0)), c[0].say(newGroupOf(1, 0))}
			for i, m := range []*client{c[1], c[0]} {
				pair = m.wantGroup(ids[i], i, 2)
			}
			c[2].wantFailed(c[2].say(exchange(pair, "")), "rank 2 is not in group")
			c[2].wantFailed(c[2].say(resolve(pair, sum)), "rank 2 is not in group")
			c[2].say(fault(pair, "not mine"))
			c[2].say(leaveGroup(pair))
			wantServed(t, c[0].group, sum, c...) // after which the agent has read what rank 2 said
			wantServed(t, pair, sum, c[1], c[0])
		}},
		"bad lists": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			for _, l := range []struct {
				ranks []int32
				words string
			}{
				{nil, "rank 0 asks for a group that it is not in"},
				{[]int32{1}, "rank 0 asks for a group that it is not in"},
				{[]int32{0, 0}, "rank 0 is named twice"},
				{[]int32{0, 1, 1}, "rank 1 is named twice"},
				{[]int32{0, 2}, "there is no rank 2 among 2"},
				{[]int32{-1, 0}, "there is no rank -1 among 2"},
				{make([]int32, 100_000), "named twice"},
			} {
				c[0].wantFailed(c[0].say(newGroupOf(l.ranks...)), l.words)
			}
			first := c[0].say(newGroupOf(1, 0))
			c[0].wantFailed(c[0].say(newGroupOf(1, 0)), "a second time before the first has answered")
			c[0].wantGroup(c[0].say(newGroupOf(0)), 0, 1) // another list is another group
			second := c[1].say(newGroupOf(1, 0))
			c[1].wantGroup(second, 0, 2)
			wantServed(t, c[0].wantGroup(first, 1, 2), sum, c[1], c[0])
		}},
		"bad classes": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			for words, class := range map[string]*pluginv1.Class{
				`unknown data type "float3"`: {Memory: "host", DataType: "float3", Op: "sum"},
				`unknown reduce op "add"`:    {Memory: "host", DataType: "float32", Op: "add"},
				`unknown memory kind "tape"`: {Memory: "tape", DataType: "float32", Op: "sum"},
				"host memory cannot be":      {Memory: "host", DataType: "float32", Op: "sum", Captured: true},
				"request class":              nil,
			} {
				m := resolve(c[0].group, sum)
				m.GetResolve().Class = class
				c[0].wantFailed(c[0].say(m), words)
			}
			wantServed(t, c[0].group, sum, c...)
		}},
		"second Resolve while others are awaited": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			first := c[0].say(resolve(c[0].group, sum))
			for _, op := range []collective.Op{collective.Sum, collective.Max} {
				c[0].wantFailed(c[0].say(resolve(c[0].group, collective.Class{Op: op})), "before its request for host float32 sum eager has been answered")
			}
			other := c[1].say(resolve(c[0].group, sum))
			followBoth(c, first, other)
			wantServed(t, c[0].group, collective.Class{Op: collective.Max}, c...)
		}},
		"second Resolve while it is decided": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			instances := c[0].wantPrepare(ids[0])
			for range 20 {
				c[0].wantFailed(c[0].say(resolve(c[0].group, sum)), "before its request")
			}
			c[0].say(report(ids[0], instances))
			c[1].say(report(ids[1], c[1].wantPrepare(ids[1])))
			for r := range c {
				c[r].wantSelfTest(ids[r])
				c[r].say(report(ids[r], instances))
			}
			for r := range c {
				c[r].wantCommit(ids[r])
			}
		}},
		"the same class again": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			wantServed(t, c[0].group, sum, c...)
			wantServed(t, c[0].group, sum, c...)
		}},
		"second Exchange": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].say(exchange(c[0].group, "first"))
			c[0].wantFailed(c[0].say(exchange(c[0].group, "second")), "rank 0 began a second exchange before the first had ended")
			c[1].say(exchange(c[0].group, "other"))
			if m := c[0].next(); m.Id != c[0].last-1 || string(m.GetExchanged().GetData()[0]) != "first" {
				t.Errorf("exchanged %v", m)
			}
		}},
		"large Exchange": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].wantFailed(c[0].say(exchange(c[0].group, strings.Repeat("x", maxExchange+1))), "1048577 bytes to exchange, at most 1048576")
			most := strings.Repeat("x", maxExchange)
			c[0].say(exchange(c[0].group, most))
			c[1].say(exchange(c[0].group, most))
			for _, m := range c {
				if got := m.next().GetExchanged(); got == nil || string(got.Data[1]) != most {
					t.Error("the largest exchange did not arrive")
				}
			}
		}},
		"StepDone that nobody expects": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			c[0].say(report(0, []uint64{1}))
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), 0}
			c[0].say(report(ids[0], []uint64{1})) // before Prepare
			wantExchange(t, c[0].group, c...)     // so that it has been read
			ids[1] = c[1].say(resolve(c[0].group, sum))
			instances := []uint64{}
			for r, m := range c {
				instances = m.wantPrepare(ids[r])
				m.say(report(ids[1-r]+1000, instances)) // of another request
			}
			for r, m := range c {
				m.say(report(ids[r], append(instances, 77))) // of an instance that does not exist
			}
			for r, m := range c {
				m.wantSelfTest(ids[r])
				m.say(report(ids[r], instances))
			}
			for r, m := range c {
				m.wantCommit(ids[r])
				m.say(report(ids[r], instances)) // too late
			}
			wantServed(t, c[0].group, collective.Class{Op: collective.Min}, c...)
		}},
		"descriptors that nobody wants": {run: func(t *testing.T, a *Agent) {
			c := joined(t, a)
			f, err := os.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for range 100 {
				if err := c[0].conn.Send(leaveGroup("g99"), f, f, f); err != nil {
					t.Fatal(err)
				}
			}
			wantExchange(t, c[0].group, c...)
			if n := descriptorsOf(t, f.Name()); n > 10 {
				t.Errorf("the agent holds %d descriptors that it was sent", n)
			}
		}},
	})
}

// descriptorsOf counts this process's descriptors of a file.
func descriptorsOf(t *testing.T, path string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return lo.CountBy(all, func(fd string) bool {
		target, _ := os.Readlink(fd) // one that has just been closed is of no file
		return target == path
	})
}

func followBoth(c []*client, first, second uint64) {
	done := make(chan bool)
	go func() {
		defer close(done)
		c[0].follow(first)
	}()
	c[1].follow(second)
	<-done
}

// TestProtocolNextClassAtOnce has ranks ask for the next class as soon as they have a commit, whatever the others have.
func TestProtocolNextClassAtOnce(t *testing.T) {
	check(t, map[string]row{"three ranks": {world: 3, run: func(t *testing.T, a *Agent) {
		clients := joined(t, a)
		done := make(chan bool)
		for _, c := range clients {
			go func() {
				defer func() { done <- true }()
				for i := range collective.NumDataTypes * collective.NumOps {
					c.follow(c.say(resolve(c.group, collective.ClassAt(i))))
				}
			}()
		}
		for range clients {
			<-done
		}
	}}})
}
