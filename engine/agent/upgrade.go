package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/telemetry"
)

// Upgrade is a new process of a plugin, running beside the one that serves.
type Upgrade struct {
	Plugin     string
	Replaced   uint64                      // the number of the process that serves
	Candidates func() []dispatch.Candidate // as they will be
	Accept     func() error                // called when groups have switched: the new process answers all questions from now on

	late  bool // only classes that the old process has made a plan of
	spare bool // only classes that what is in reserve serves
	trace *telemetry.Upgrade
}

// GroupUpgrade is what an upgrade did in one group.
type GroupUpgrade struct {
	Group   string   `json:"group"`
	Epoch   uint64   `json:"epoch,omitempty"`
	Call    uint64   `json:"call,omitempty"`    // the first that the new plans make; 0 if none changed
	Classes []string `json:"classes,omitempty"` // that have new plans
	Kept    []string `json:"kept,omitempty"`    // classes of device memory, which keep their plans
	Skipped string   `json:"skipped,omitempty"` // why it keeps all its plans
}

// Upgrade has the groups served by a new process of a plugin while their calls go on. Every class in host memory is decided
// once more; the plans are prepared and tried in all ranks, of all groups, beside the ones in use. Then group after group
// switches, each at a call number. Nothing is switched if anything of the new process fails; the error says what did. A
// group that has ended, or that does not take part in time when the others have switched, is skipped.
//
// Classes in device memory keep their plans: graphs hold them, and other calls of the class must not differ from those.
func (a *Agent) Upgrade(ctx context.Context, of Upgrade) ([]GroupUpgrade, error) {
	a.upgrading.Lock()
	defer a.upgrading.Unlock()
	of.trace = a.opts.Tracer.Upgrade(a.background(), of.Plugin)
	report, err := a.upgradeAll(ctx, of)
	of.trace.End(err)
	if a.opts.Meter != nil {
		switched := slices.ContainsFunc(report, func(r GroupUpgrade) bool { return r.Call > 0 })
		a.opts.Meter.Upgraded(a.background(), of.Plugin, switched, err)
	}
	return report, err
}

// upgradeAll upgrades the groups, and then those that the old process was asked about meanwhile.
func (a *Agent) upgradeAll(ctx context.Context, of Upgrade) ([]GroupUpgrade, error) {
	report, err := a.upgradeGroups(ctx, of, a.groupsInOrder())
	if err != nil {
		return report, err
	}
	if err := of.Accept(); err != nil {
		return report, err
	}
	of.late = true
	for range 3 {
		late := lo.Filter(a.groupsInOrder(), func(g *group, _ int) bool {
			return g.uses(of.Replaced) && !slices.ContainsFunc(report, func(r GroupUpgrade) bool { return r.Group == g.id && r.Skipped != "" })
		})
		if len(late) == 0 {
			break
		}
		more, err := a.upgradeGroups(ctx, of, late)
		if err != nil {
			more = lo.Map(late, func(g *group, _ int) GroupUpgrade { return GroupUpgrade{Group: g.id, Skipped: err.Error()} })
		}
		report = append(report, more...)
	}
	return report, nil
}

// Serves tells the agent that a plugin serves that had ended or was slow to come up. What the backend in reserve does in its place is
// decided once more, as by an upgrade, beside calls that go on.
func (a *Agent) Serves(plugin string) {
	a.wg.Go(func() {
		a.upgrading.Lock()
		defer a.upgrading.Unlock()
		groups := lo.Filter(a.groupsInOrder(), func(g *group, _ int) bool { return g.spares() })
		if len(groups) == 0 {
			return
		}
		ctx, cancel := context.WithCancel(a.background())
		defer cancel()
		go a.cancelWhenDone(ctx, cancel)
		of := Upgrade{Plugin: plugin, Candidates: a.opts.Candidates, spare: true, trace: a.opts.Tracer.Upgrade(a.background(), plugin)}
		report, err := a.upgradeGroups(ctx, of, groups)
		of.trace.End(err)
		if err != nil {
			a.opts.Logger.Warn("groups are served by what is in reserve still", "plugin", plugin, "error", err)
		}
		for _, r := range report {
			a.opts.Logger.Info("a plugin takes over from what is in reserve", "plugin", plugin, "outcome", r.String())
		}
	})
}

// spares reports whether what is in reserve serves a class of the group.
func (g *group) spares() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return lo.SomeBy(lo.Values(g.inForce), func(f inForce) bool { return f.spares() })
}

func (d decided) spares() bool {
	return lo.SomeBy(lo.Values(d.instances), func(x *instance) bool { return x.reserve })
}

func (a *Agent) groupsInOrder() []*group {
	groups := a.liveGroups()
	slices.SortFunc(groups, byID)
	return groups
}

// upgradeGroups prepares all and then switches all.
func (a *Agent) upgradeGroups(ctx context.Context, of Upgrade, groups []*group) (report []GroupUpgrade, err error) {
	var ready []*upgrade
	for _, g := range groups {
		u, err := g.prepareUpgrade(ctx, of)
		switch {
		case err == nil:
			ready = append(ready, u)
		case g.isOver():
			report = append(report, GroupUpgrade{Group: g.id, Skipped: err.Error()})
		default:
			err = fmt.Errorf("group %s: %w", g.id, err)
			for _, u := range ready {
				u.abandon(fmt.Errorf("given up: %w", err))
			}
			return nil, err
		}
	}
	var failed error
	switched := false
	for _, u := range ready {
		r := u.report
		if len(u.classes) == 0 {
			u.abandon(nil)
		} else if err := u.switchOver(); err != nil {
			u.abandon(err)
			failed = errors.Join(failed, fmt.Errorf("group %s: %w", u.group.id, err))
			r.Skipped = err.Error()
		} else {
			switched = true
			r = u.report
		}
		report = append(report, r)
	}
	if failed != nil && !switched {
		return report, failed
	}
	return report, nil
}

// isOver reports whether the group can be upgraded no more.
func (g *group) isOver() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed || g.usable() != nil
}

// uses reports whether a plugin's process, by its number, made a plan in force or is being asked for one.
func (g *group) uses(process uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.consulted[process] || lo.SomeBy(lo.Values(g.inForce), func(f inForce) bool {
		return f.decision.Class.Memory == collective.Host && f.uses(process)
	})
}

func (d decided) uses(process uint64) bool {
	return lo.SomeBy(lo.Values(d.instances), func(x *instance) bool { return x.process == process })
}

// WhenUnused calls f once no group has a worker of a plugin's process, or may get one.
func (a *Agent) WhenUnused(process uint64, f func()) {
	a.wg.Go(func() {
		for {
			if !lo.SomeBy(a.liveGroups(), func(g *group) bool { return g.hasWorkerOf(process) }) {
				f()
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-a.done:
				return
			}
		}
	})
}

func (g *group) hasWorkerOf(process uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.consulted[process] || lo.SomeBy(lo.Values(g.services), func(s *service) bool { return s.instanceOf.process == process })
}

func (r GroupUpgrade) String() string {
	switch {
	case r.Skipped != "":
		return fmt.Sprintf("group %s keeps its plans: %s", r.Group, r.Skipped)
	case r.Call == 0:
		return fmt.Sprintf("group %s: nothing to switch", r.Group)
	}
	return fmt.Sprintf("group %s: %s by the new plans from all-reduce %d on (epoch %d)", r.Group, strings.Join(r.Classes, ", "), r.Call, r.Epoch)
}
