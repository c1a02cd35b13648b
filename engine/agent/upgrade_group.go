package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/samber/lo"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// upgrade is an upgrade of one group in progress. The methods that a resolution calls may be called on nil, which is no
// upgrade.
type upgrade struct {
	group   *group
	of      Upgrade
	turn    uint64
	epoch   uint64
	start   time.Time
	classes []*upgradedClass // that change
	report  GroupUpgrade

	fresh  []*instance // all that was made for it
	known  bool        // to ranks
	opened bool        // the turn is on the board

	mu  sync.Mutex
	err error         // why it cannot be committed
	off chan struct{} // closed with err
}

// upgradedClass is a class whose new table all ranks have.
type upgradedClass struct {
	*resolution
	to decided
}

// prepareUpgrade decides all classes of a group in host memory anew, beside calls.
func (g *group) prepareUpgrade(ctx context.Context, of Upgrade) (*upgrade, error) {
	u, classes, err := g.beginUpgrade(ctx, of)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-u.off:
		case <-g.job.agent.done:
		case <-ctx.Done():
		}
		cancel()
	}()
	for _, c := range classes {
		if err := u.prepare(ctx, c); err != nil {
			err = fmt.Errorf("class %s: %w", c, cmp.Or(u.why(), err)) // why it was cancelled, rather than that
			u.abandon(err)
			return nil, err
		}
	}
	return u, nil
}

// beginUpgrade waits until neither a decision nor a switch is in progress. Decisions that ranks ask for wait from then on.
func (g *group) beginUpgrade(ctx context.Context, of Upgrade) (*upgrade, []collective.Class, error) {
	limit := g.job.agent.opts.CallDeadline
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		g.mu.Lock()
		if err := g.usable(); err != nil || g.closed {
			g.mu.Unlock()
			return nil, nil, cmp.Or(err, errEnded)
		}
		wait, what := g.busyWith()
		if wait == nil {
			defer g.mu.Unlock()
			g.turn++
			u := &upgrade{group: g, of: of, turn: g.turn, start: time.Now(), off: make(chan struct{}), report: GroupUpgrade{Group: g.id}}
			g.upgrade = u
			var classes []collective.Class
			for _, index := range slices.Sorted(maps.Keys(g.inForce)) {
				switch c := collective.ClassAt(index); {
				case c.Memory != collective.Host:
					u.report.Kept = append(u.report.Kept, c.String())
				case of.spare && !g.inForce[index].spares():
				case !of.late || g.inForce[index].uses(of.Replaced):
					classes = append(classes, c)
				}
			}
			return u, classes, nil
		}
		g.mu.Unlock()
		select {
		case <-wait:
		case <-timer.C:
			return nil, nil, fmt.Errorf("after %s, %s", limit, what)
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-g.job.agent.done:
			return nil, nil, errors.New("the agent has been closed")
		}
	}
}

var errEnded = errors.New("the group has ended")

// busyWith is what an upgrade has to wait for; nil for nothing. g.mu is held.
func (g *group) busyWith() (<-chan struct{}, string) {
	switch {
	case g.asked != nil && g.asked.started:
		return g.asked.over, "a decision is still in progress"
	case g.pending != nil:
		return g.pending.done, fmt.Sprintf("%s has not come to all-reduce %d, at which the last upgrade switches", rankList(g.pending.missing(g)), g.pending.number)
	}
	return nil, ""
}

// prepare decides one class. All ranks have its new table then, unless it is the one in force.
func (u *upgrade) prepare(ctx context.Context, class collective.Class) (err error) {
	g, agent := u.group, u.group.job.agent
	id := agent.newID()
	ids := lo.Associate(lo.Range(len(g.ranks)), func(rank int) (int, uint64) { return rank, id })
	_, trace := agent.opts.Tracer.Start(u.of.trace.In(agent.background()), g.facts, class)
	r := &resolution{
		group: g, asked: &asked{class: class, ids: ids}, trace: trace, candidates: agent.unspoilt(u.of.Candidates()), verdicts: map[string]backend.Verdict{}, upgrade: u,
	}
	var d dispatch.Decision
	var chosen map[int]*instance
	defer func() { trace.End(d, err) }()
	if d, chosen, err = r.settle(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	commit := r.message(d, chosen, u.epoch)
	same := proto.Equal(&rankv1.Commit{Segments: g.inForce[class.Index()].segments}, &rankv1.Commit{Segments: commit.Segments}) &&
		!lo.SomeBy(lo.Values(chosen), func(x *instance) bool { return slices.Contains(u.fresh, x) })
	g.mu.Unlock()
	if same {
		return nil
	}
	if u.epoch == 0 {
		u.epoch = g.nextEpoch()
	}
	commit.Epoch = u.epoch
	if err := u.announce(r); err != nil {
		return err
	}
	staged, _, err := r.step("commit", agent.opts.PrepareDeadline, nil, func(m *member, id uint64) error {
		return m.conn.Send(&rankv1.ToRank{Id: id, Body: &rankv1.ToRank_Commit{Commit: commit}})
	})
	if err != nil {
		return err
	}
	for rank, report := range staged {
		for _, o := range report.done.GetOutcomes() {
			return fmt.Errorf("rank %d: %s", rank, o.GetReason().GetText())
		}
	}
	u.classes = append(u.classes, &upgradedClass{r, decided{d, chosen, commit.Segments}})
	u.report.Classes = append(u.report.Classes, class.String())
	return nil
}

func (a *Agent) newID() uint64 { return rankv1.AgentIDs + a.lastID.Add(1) }

// announce tells the ranks which class messages of the resolution's id are about, once.
func (u *upgrade) announce(r *resolution) error {
	if u == nil || r.announced {
		return nil
	}
	r.announced, u.known = true, true
	return r.send(func(int) *rankv1.ToRank {
		return &rankv1.ToRank{Body: &rankv1.ToRank_Upgrade{Upgrade: &rankv1.Upgrade{Group: r.group.id, Class: pluginv1.FromClass(r.asked.class), Turn: u.turn}}}
	})
}

// made notes an instance of the upgrade's own.
func (u *upgrade) made(x *instance) {
	if u != nil {
		u.fresh = append(u.fresh, x)
	}
}

// keeps is the instance that serves the class and goes on to: the backend is another plugin's, and its plan is the same.
func (u *upgrade) keeps(r *resolution, name string, p plan.Plan) *instance {
	c := r.candidate(name)
	if u == nil || c.Plugin == u.of.Plugin {
		return nil
	}
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	wanted := pluginv1.FromPlan(p)
	x, _ := lo.Find(lo.Values(g.inForce[r.asked.class.Index()].instances), func(x *instance) bool {
		return x.backend == name && proto.Equal(x.plan, wanted) && (x.service == nil || x.process == c.Process && !x.service.isGone())
	})
	return x
}

// declined has the upgrade fail with a backend of the new process.
func (u *upgrade) declined(r *resolution, name string, reasons []backend.Reason) {
	if u != nil && r.candidate(name).Plugin == u.of.Plugin {
		u.cancel(&backend.Fault{Code: reasons[0].Code, Rank: reasons[0].Rank, Err: fmt.Errorf("the new process's backend %s: %s", name, reasons[0])})
	}
}

// abandon drops all that was prepared; the ranks go on as they did. Decisions that they wait for go on too.
func (u *upgrade) abandon(why error) {
	g := u.group
	u.cancel(cmp.Or(why, errors.New("nothing changes")))
	g.mu.Lock()
	if u.opened && !g.closed {
		g.board.SettleTurn(u.turn, rankv1.Abandoned)
	}
	g.mu.Unlock()
	if u.known {
		u.tell(false)
	}
	g.mu.Lock()
	g.upgrade = nil
	g.startAsked()
	g.mu.Unlock()
	g.freeAll(u.fresh)
	if why != nil {
		g.job.agent.opts.Logger.Warn("group keeps its plans", "group", g.id, "plugin", u.of.Plugin, "why", why)
	}
}

// tell has the ranks know how the turn was settled. They find out by themselves what they must; so it need not arrive.
func (u *upgrade) tell(committed bool) {
	m := &rankv1.ToRank{Body: &rankv1.ToRank_Switch{Switch: &rankv1.Switch{Group: u.group.id, Turn: u.turn, Committed: committed}}}
	for rank, member := range u.group.members {
		if !u.group.isGone(rank) {
			_ = member.conn.Send(m)
		}
	}
}

// decidedUpgrade reports what has changed.
func (u *upgrade) decidedUpgrade(number uint64) {
	agent := u.group.job.agent
	for _, c := range u.classes {
		if agent.opts.Meter != nil {
			agent.opts.Meter.Decided(agent.background(), c.to.decision, agent.opts.Policy, nil)
		}
		agent.decided(Resolved{Decision: c.to.decision, WorldSize: len(u.group.ranks), Epoch: u.epoch, From: number, Took: time.Since(u.start)})
	}
}
