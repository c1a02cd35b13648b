package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/samber/lo"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/await"
)

func TestProtocolDeadlines(t *testing.T) {
	short := await.For(100 * time.Millisecond).Round(time.Millisecond) // the ranks that answer are faster
	grace := await.Lapse(time.Millisecond)
	check(t, map[string]row{
		"never answers Prepare": {
			options: func(o *Options) { o.PrepareDeadline, o.grace = short, grace },
			run: func(t *testing.T, a *Agent) {
				c := joined(t, a)
				ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
				c[0].say(report(ids[0], c[0].wantPrepare(ids[0])))
				c[1].wantPrepare(ids[1])
				words := fmt.Sprintf("rank 1 did not report weir.prepare within %s", short+grace)
				for r, m := range c {
					m.wantFault(c[0].group, words)
					m.wantFailed(ids[r], words)
				}
				c[1].say(report(ids[1], nil)) // too late
				c[1].wantFailed(c[1].say(exchange(c[0].group, "")), "rank 1 did not report")
			},
		},
		"nobody answers SelfTest": {
			options: func(o *Options) { o.SelfTestDeadline, o.grace = short, grace },
			run: func(t *testing.T, a *Agent) {
				c := joined(t, a)
				ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
				for r, m := range c {
					m.say(report(ids[r], m.wantPrepare(ids[r])))
				}
				for r, m := range c {
					m.wantSelfTest(ids[r])
					m.wantFault(c[0].group, "ranks 0, 1 did not report")
					m.wantFailed(ids[r], "ranks 0, 1 did not report")
				}
			},
		},
		"never resolves": {
			options: func(o *Options) { o.CallDeadline = short },
			run: func(t *testing.T, a *Agent) {
				c := joined(t, a)
				id := c[0].say(resolve(c[0].group, sum))
				words := fmt.Sprintf("rank 1 did not call host float32 sum eager within %s of the others", short)
				c[0].wantFault(c[0].group, words)
				c[0].wantFailed(id, words)
				c[1].wantFault(c[0].group, words)
			},
		},
		"never exchanges": {
			options: func(o *Options) { o.CallDeadline = short },
			run: func(t *testing.T, a *Agent) {
				c := joined(t, a)
				c[0].wantFailed(c[0].say(exchange(c[0].group, "")), fmt.Sprintf("rank 1 did not exchange within %s", short))
				c[1].wantFailed(c[1].say(exchange(c[0].group, "")), fmt.Sprintf("rank 0 did not exchange within %s", short))
				wantServed(t, c[0].group, sum, c...) // the group is none the worse for it
			},
		},
		"never asks for the group": {
			world:   3,
			options: func(o *Options) { o.JoinDeadline = 3 * short },
			run: func(t *testing.T, a *Agent) {
				c := joined(t, a)
				id := c[0].say(newGroupOf(2, 0, 1))
				c[0].wantFailed(id, fmt.Sprintf("1 of 3 ranks asked to form a group: ranks 1, 2 did not within %s", 3*short))
				wantServed(t, c[0].group, sum, c...)
			},
		},
	})
}

// TestCloseWhileRanksPrepare holds that an agent ends when it is told to, whatever it waits for.
func TestCloseWhileRanksPrepare(t *testing.T) {
	for name, phase := range map[string]func(c []*client){
		"joining":    nil,
		"exchanging": func(c []*client) { c[0].say(exchange(c[0].group, "")) },
		"resolving":  func(c []*client) { c[0].say(resolve(c[0].group, collective.Class{})) },
		"preparing": func(c []*client) {
			id := c[0].say(resolve(c[0].group, sum))
			c[1].wantPrepare(c[1].say(resolve(c[0].group, sum)))
			c[0].wantPrepare(id)
		},
		"testing": func(c []*client) {
			ids := []uint64{c[0].say(resolve(c[0].group, sum)), c[1].say(resolve(c[0].group, sum))}
			for r, m := range c {
				m.say(report(ids[r], m.wantPrepare(ids[r])))
			}
			c[0].wantSelfTest(ids[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			a := startAgent(t, 2, func(o *Options) { o.PrepareDeadline, o.SelfTestDeadline = time.Hour, time.Hour })
			if phase == nil {
				dial(t, a).say(join(0, 2))
			} else {
				phase(joined(t, a))
			}
			closed := make(chan error, 1)
			go func() { closed <- a.Close() }()
			if err := await.Receive(t, "Close, which waits for no rank", closed); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCloseWithSilentConnections(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a := startAgent(t, 2, nil)
	silent := lo.Times(50, func(int) *client { return dial(t, a) })
	clients := joined(t, a)
	wantServed(t, clients[0].group, sum, clients...)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range append(silent, clients...) {
		c.wantEnd()
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %s", err)
	}
}
