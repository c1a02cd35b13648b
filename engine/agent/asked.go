package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
)

// asked is a class that ranks wait to have decided. Nothing is prepared before all ranks wait: then each is there to take
// part in the self-test.
type asked struct {
	class   collective.Class
	ids     map[int]uint64 // request of each rank that waits
	lost    []uint64       // instances whose workers are gone, for which the class is decided once more
	timer   *time.Timer
	ready   bool // all ranks wait
	started bool
	over    chan struct{} // closed when it was decided, or not
}

// resolve notes that a rank waits for a class and decides it when all do.
func (g *group) resolve(rank int, id uint64, class collective.Class, lost []uint64) error {
	g.mu.Lock()
	if err := g.usable(); err != nil {
		g.mu.Unlock()
		return err
	}
	a := g.asked
	if a == nil {
		a = &asked{class: class, ids: map[int]uint64{}, lost: lost, over: make(chan struct{})}
		a.timer = time.AfterFunc(g.job.agent.opts.CallDeadline, func() { g.waitedTooLong(a) })
		g.asked = a
	}
	if _, twice := a.ids[rank]; twice {
		g.mu.Unlock()
		return fmt.Errorf("rank %d asks for %s before its request for %s has been answered", rank, class, a.class)
	}
	if a.class != class {
		text := fmt.Sprintf("ranks disagree: %s called %s, rank %d called %s", rankList(lo.Keys(a.ids)), a.class, rank, class)
		g.mu.Unlock()
		g.fail(text)
		return &deadGroup{g.id, text}
	}
	a.ids[rank] = id
	if len(a.ids) == len(g.ranks) {
		a.timer.Stop()
		a.ready = true
		if len(lost) > 0 {
			g.cancelUpgrade(errors.New("a worker was lost in a call, which was decided first"))
		}
		g.startAsked()
	}
	g.mu.Unlock()
	return nil
}

// startAsked decides the class that all ranks wait for, unless an upgrade is in progress, whose end will start it. g.mu is
// held.
func (g *group) startAsked() {
	a := g.asked
	if a == nil || !a.ready || a.started || g.upgrade != nil {
		return
	}
	a.started, g.resolved = true, true
	g.job.agent.wg.Go(func() {
		defer close(a.over)
		g.decide(a)
	})
}

// dropAsked ends the wait for a decision that has not begun and returns who waited. g.mu is held.
func (g *group) dropAsked() map[int]uint64 {
	a := g.asked
	if a == nil || a.started {
		return nil // a decision that has begun ends by itself
	}
	a.timer.Stop()
	g.asked = nil
	return a.ids
}

func (g *group) waitedTooLong(a *asked) {
	g.mu.Lock()
	if g.asked != a || a.ready {
		g.mu.Unlock()
		return
	}
	missing := lo.Filter(lo.Range(len(g.ranks)), func(rank, _ int) bool { _, waits := a.ids[rank]; return !waits })
	g.mu.Unlock()
	g.fail(fmt.Sprintf("%s did not call %s within %s of the others", rankList(missing), a.class, g.job.agent.opts.CallDeadline))
}
