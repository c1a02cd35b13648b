package agent

import (
	"cmp"
	"errors"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// pending is a switch that was committed, until all ranks have come to it.
type pending struct {
	turn, number uint64
	passed       []bool
	old          []*instance         // that no call from number on uses
	fresh        map[int][]*instance // by index of the class
	done         chan struct{}       // closed when all have passed
	trace        *telemetry.Switch
}

// The first gate is as near as can be: the next call of ranks that are idle, who then switch at once, or the one after it,
// for a rank that is in a call may have begun the next as far as anybody can tell. If ranks have come to a gate before they saw
// it, the next one is further off; in the end none of them has to wait.
const (
	idleMargin   = 1
	firstMargin  = 2
	marginGrowth = 64
)

// switchOver finds a call number that no rank has begun and commits the new tables from there on. sdk/rank/gate.go says
// what ranks do.
func (u *upgrade) switchOver() (err error) {
	g, start := u.group, time.Now()
	defer func() {
		if err != nil {
			u.of.trace.Commit(g.id, 0, 0, start, err)
		}
	}()
	if err := u.open(); err != nil {
		return err
	}
	end := time.Now().Add(g.job.agent.opts.PrepareDeadline)
	begun, margin, err := u.begun()
	for ; err == nil; margin *= marginGrowth {
		number := begun + margin
		if begun, err = u.gate(number); err != nil {
			return err
		}
		if begun < number {
			return u.commit(number, start)
		}
		if time.Now().After(end) || margin > 1<<40 {
			return errors.New("the ranks were always faster than the agent")
		}
	}
	return err
}

func (u *upgrade) open() error {
	g := u.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := u.why(); err != nil || g.closed {
		return cmp.Or(err, errEnded)
	}
	g.board.OpenTurn(u.turn)
	u.opened = true
	return nil
}

// begun is the highest number of a call that a rank has begun, about, and how far off the gate should be.
func (u *upgrade) begun() (most, margin uint64, err error) {
	g := u.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, 0, errEnded
	}
	margin = idleMargin
	for rank := range g.ranks {
		number := g.board.Number(rank)
		if most = max(most, number); g.board.Done(rank) != number {
			margin = firstMargin
		}
	}
	return most, margin, nil
}

// gate has all ranks set the gate. No call with a higher number than the one returned has begun without having seen it.
func (u *upgrade) gate(number uint64) (begun uint64, err error) {
	g, agent := u.group, u.group.job.agent
	id := agent.newID() // an answer to an earlier gate must not count for this one
	r := &resolution{group: g, upgrade: u, asked: &asked{ids: lo.Associate(lo.Range(len(g.ranks)), func(rank int) (int, uint64) { return rank, id })}}
	gate := &rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Gate{Gate: &rankv1.Gate{Group: g.id, Turn: u.turn, Number: number}}}
	done, _, err := r.step("gate", agent.opts.PrepareDeadline, nil, func(m *member, _ uint64) error { return m.conn.Send(gate) })
	for _, d := range done {
		begun = max(begun, d.done.GetBegun())
	}
	return begun, err
}

// commit puts the tables in force from a call on. All ranks have set the gate to it before they began it.
func (u *upgrade) commit(number uint64, start time.Time) error {
	g := u.group
	g.mu.Lock()
	switch err := u.why(); {
	case err != nil || g.closed:
		g.mu.Unlock()
		return cmp.Or(err, errEnded)
	case !g.board.SettleTurn(u.turn, rankv1.Committed):
		g.mu.Unlock()
		return errors.New("a rank lost patience at the gate")
	}
	p := &pending{turn: u.turn, number: number, passed: make([]bool, len(g.ranks)), fresh: map[int][]*instance{}, done: make(chan struct{})}
	for _, c := range u.classes {
		index := c.asked.class.Index()
		p.old = append(p.old, lo.Without(lo.Values(g.inForce[index].instances), lo.Values(c.to.instances)...)...)
		p.fresh[index] = lo.Intersect(u.fresh, lo.Values(c.to.instances))
		g.putInForce(c.asked.class, c.to, u.epoch)
	}
	p.trace = u.of.trace.Commit(g.id, u.epoch, number, start, nil)
	g.pending, g.upgrade = p, nil
	g.startAsked()
	g.mu.Unlock()
	u.report.Epoch, u.report.Call = u.epoch, number
	u.tell(true)
	u.decidedUpgrade(number)
	g.passed(0, 0) // ranks may have left meanwhile
	g.job.agent.opts.Logger.Info("group switches to new plans", "group", g.id, "plugin", u.of.Plugin, "call", number, "epoch", u.epoch)
	return nil
}

// passed notes that a rank has come to the switch of a turn, or that one has left.
func (g *group) passed(rank int, turn uint64) {
	g.mu.Lock()
	p := g.pending
	if p == nil {
		g.mu.Unlock()
		return
	}
	if turn == p.turn && !p.passed[rank] {
		p.passed[rank] = true
		p.trace.Passed(rank)
	}
	if len(p.missing(g)) > 0 {
		g.mu.Unlock()
		return
	}
	g.pending = nil
	g.mu.Unlock()
	g.freeAll(p.old)
	close(p.done)
}

// missing are the ranks that have not come to the switch. g.mu is held.
func (p *pending) missing(g *group) []int {
	return lo.Filter(lo.Range(len(g.ranks)), func(rank, _ int) bool { return !p.passed[rank] && !g.gone[rank] })
}

// supersede takes a class out of a switch that ranks have yet to come to: they have decided it themselves, because a worker
// was lost in a call before it. It returns what nobody will use. g.mu is held.
func (g *group) supersede(index int) []*instance {
	if g.pending == nil {
		return nil
	}
	fresh := g.pending.fresh[index]
	delete(g.pending.fresh, index)
	return fresh
}
