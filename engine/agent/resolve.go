package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// decide resolves a class: cascade, plans, prepare, self-test, commit. A backend that fails on the way is declined and
// the cascade goes on without it.
func (g *group) decide(a *asked) {
	agent := g.job.agent
	start := time.Now()
	g.prove(a.class)
	ctx, trace := agent.opts.Tracer.Start(agent.background(), g.facts, a.class)
	r := &resolution{group: g, asked: a, trace: trace, candidates: g.consult(), verdicts: map[string]backend.Verdict{}, awaited: map[string]int{}}
	err := r.dropLost()
	var decision dispatch.Decision
	if err == nil {
		decision, err = r.run(ctx, start)
	}
	trace.End(decision, err)
	if agent.opts.Meter != nil {
		agent.opts.Meter.Decided(ctx, decision, agent.opts.Policy, err)
	}
	g.mu.Lock()
	if g.asked == a {
		g.asked = nil
	}
	g.consulted = nil
	g.mu.Unlock()
	if err == nil {
		return
	}
	agent.opts.Logger.Debug("no decision", "group", g.id, "class", a.class.String(), "error", err)
	for rank, id := range a.ids {
		g.members[rank].refuse(id, err)
	}
}

// consult is the candidates as they are now. Their processes are noted first, so that none is ended meanwhile.
func (g *group) consult() []dispatch.Candidate {
	g.mu.Lock()
	defer g.mu.Unlock()
	candidates := g.job.agent.candidates()
	g.consulted = lo.Associate(candidates, func(c dispatch.Candidate) (uint64, bool) { return c.Process, true })
	return candidates
}

// resolution is the work of deciding one class.
type resolution struct {
	group *group
	asked *asked
	trace *telemetry.Resolution

	candidates []dispatch.Candidate       // as they were when it began
	verdicts   map[string]backend.Verdict // so far
	awaited    map[string]int             // how often the plugins of backends had ended and were waited for
	upgrade    *upgrade                   // that it is part of; nil: the ranks wait for it
	announced  bool                       // of an upgrade: to the ranks
}

// run decides. The error is a group that cannot be served or go on.
func (r *resolution) run(ctx context.Context, start time.Time) (dispatch.Decision, error) {
	d, prepared, err := r.settle(ctx)
	if err != nil {
		if d.Table != nil && len(d.Table.Chosen()) == 0 {
			r.report(d, 0, start, err)
		}
		return d, err
	}
	epoch := r.group.nextEpoch()
	r.report(d, epoch, start, nil) // before the ranks go on, so that it is read before what they print
	return d, r.trace.Commit(ctx, epoch, func(context.Context) error { return r.commit(d, prepared, epoch) })
}

// settle decides what may be committed: the plans of the chosen backends are ready and have been tried in every rank.
func (r *resolution) settle(ctx context.Context) (dispatch.Decision, map[int]*instance, error) {
	opts := r.group.job.agent.opts
	for {
		d := r.trace.Resolve(ctx, r.upgrade.watch(r.candidates), dispatch.Options{Policy: opts.Policy, Verdicts: r.verdicts})
		for _, a := range d.Answers {
			if !a.OtherOrder { // that depends on who else serves
				r.verdicts[a.Backend] = a.Verdict
			}
		}
		chosen := d.Table.Chosen()
		if r.upgrade == nil && (len(chosen) == 0 || slices.ContainsFunc(chosen, func(i int) bool { return r.candidate(d.Answers[i].Backend).Reserve })) && r.recovered(ctx, d) {
			continue
		}
		if len(chosen) == 0 {
			return d, nil, unserved(d)
		}
		if err := r.upgrade.why(); err != nil {
			return d, nil, err
		}
		prepared, ok, err := r.prepare(ctx, d)
		if err == nil {
			err = r.upgrade.why() // a backend of the new process has failed: the cascade does not go on without it
		}
		if err != nil || ok {
			return d, prepared, err
		}
	}
}

// recoverPatience is how long a class that nobody serves, or only what is in reserve, waits for plugins that have ended, or were slow to come
// up, to be started again.
const recoverPatience = 10 * time.Second

// mostRecoveries is how often a plugin is waited for in one decision: one that keeps ending must not hold the ranks up.
const mostRecoveries = 3

// recovered waits for plugins that have ended or did not come up in time, and reports whether one serves now.
func (r *resolution) recovered(ctx context.Context, d dispatch.Decision) bool {
	await := r.group.job.agent.opts.Await
	if await == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	serves := false
	for _, a := range d.Answers {
		down := slices.ContainsFunc(a.Verdict.Reasons, func(x backend.Reason) bool {
			return x.Code == backend.PluginCrashed || r.candidate(a.Backend).Backend == nil
		})
		if a.Verdict.Kind != backend.Decline || !down || r.awaited[a.Backend] == mostRecoveries {
			continue
		}
		r.awaited[a.Backend]++
		r.group.job.agent.opts.Logger.Info("a decision waits for a plugin", "group", r.group.id, "plugin", a.Plugin, "for", recoverPatience, "why", a.Verdict.String())
		if await(ctx, a.Plugin) {
			delete(r.verdicts, a.Backend)
			serves = true
		}
	}
	if serves {
		r.candidates = r.group.job.agent.candidates()
	}
	return serves
}

func (r *resolution) report(d dispatch.Decision, epoch uint64, start time.Time, err error) {
	r.group.job.agent.decided(Resolved{Decision: d, WorldSize: len(r.group.ranks), Epoch: epoch, Took: time.Since(start), Err: err})
}

// decline turns a backend that was accepted into one that is not.
func (r *resolution) decline(name string, reasons ...backend.Reason) {
	r.verdicts[name] = backend.Declined(reasons...)
	r.upgrade.declined(r, name, reasons)
	r.group.job.agent.opts.Logger.Warn("backend declined", "group", r.group.id, "backend", name, "reason", reasons[0].String())
}

// prepare gets the plans of the chosen backends ready and tried in every rank. ok is false if a backend fell out.
func (r *resolution) prepare(ctx context.Context, d dispatch.Decision) (map[int]*instance, bool, error) {
	chosen, kept := map[int]*instance{}, map[int]*instance{} // by position in the cascade
	for _, i := range d.Table.Chosen() {
		name := d.Answers[i].Backend
		p, err := r.plan(ctx, d, i)
		if err == nil {
			err = r.trial(ctx, p, d.Table.Ranges(i))
		}
		if err == nil {
			if x := r.upgrade.keeps(r, name, p); x != nil {
				kept[i] = x
				continue
			}
			var x *instance
			if x, err = r.group.instance(r.candidate(name), p); err == nil {
				chosen[i] = x
				if err = r.fit(chosen); err == nil {
					r.upgrade.made(x)
					continue
				}
			}
		}
		r.decline(name, backend.ReasonFor(err))
		r.free(chosen) // no rank has been told of them
		return nil, false, nil
	}
	if len(chosen) == 0 {
		return kept, true, nil
	}
	if err := r.upgrade.announce(r); err != nil {
		r.free(chosen)
		return nil, false, err
	}
	failed, err := r.steps(ctx, d, chosen)
	if err == nil && len(failed) == 0 {
		return lo.Assign(chosen, kept), true, nil
	}
	for name, reasons := range failed {
		r.decline(name, reasons...)
	}
	if err != nil {
		r.free(chosen)
		return nil, false, err // the group cannot go on, so the ranks need not tidy up
	}
	return nil, false, r.discard(chosen)
}

// trial runs a plan with foreign code in it apart from the ranks.
func (r *resolution) trial(ctx context.Context, p plan.Plan, ranges []backend.Range) error {
	agent := r.group.job.agent
	if k := p.Kind(); agent.opts.Trial == nil || k != plan.LibraryKind && k != plan.KernelKind {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agent.opts.PrepareDeadline+agent.opts.SelfTestDeadline+cmp.Or(agent.opts.grace, grace))
	defer cancel()
	go agent.cancelWhenDone(ctx, cancel)
	return agent.opts.Trial(ctx, p, ranges, r.asked.class, r.group.facts)
}

// plan asks a backend for its plan and checks it.
func (r *resolution) plan(ctx context.Context, d dispatch.Decision, i int) (plan.Plan, error) {
	name := d.Answers[i].Backend
	c := r.candidate(name)
	if c.Backend == nil {
		return nil, fmt.Errorf("backend %s has gone", name)
	}
	return r.trace.Plan(ctx, name, func(ctx context.Context) (plan.Plan, error) {
		p, err := c.Backend.Plan(ctx, backend.Request{Group: r.group.facts, Class: r.asked.class}, d.Table.Ranges(i))
		if err != nil {
			return nil, err
		}
		if p == nil || p.Kind() != c.Info.Kind {
			return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: fmt.Errorf("the plan is not a %s", c.Info.Kind)}
		}
		if err := p.Validate(len(r.group.ranks)); err != nil {
			return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: err}
		}
		if s, ok := p.(*plan.Schedule); ok {
			if err := r.group.job.agent.prover.Prove(s); err != nil {
				return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: err}
			}
		}
		if k, ok := p.(*plan.Kernel); ok && !k.PollsAbort && !r.group.job.agent.opts.UnabortableKernels {
			return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: errors.New(
				"the plan does not say that its kernels leave when the group fails: a rank that dies would leave its peers' GPUs spinning (group.unabortable_kernels allows it)")}
		}
		return p, nil
	})
}

// candidate is the one of a name; the zero Candidate if there is none.
func (r *resolution) candidate(name string) dispatch.Candidate {
	c, _ := lo.Find(r.candidates, func(c dispatch.Candidate) bool { return c.Info.Name == name })
	return c
}

// unserved is the error of a class that nobody accepts: every candidate with its reasons.
func unserved(d dispatch.Decision) error {
	if len(d.Answers) == 0 {
		return fmt.Errorf("no backend serves %s: no plugin offers one", d.Class)
	}
	return fmt.Errorf("no backend serves %s: %s", d.Class, strings.Join(lo.Map(d.Answers, func(a dispatch.Answer, _ int) string {
		return fmt.Sprintf("%s: %s", a.Backend, a.Verdict)
	}), " | "))
}

func (g *group) nextEpoch() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
	return g.epoch
}

// send sends a message to every rank that waits for the class.
func (r *resolution) send(build func(rank int) *rankv1.ToRank) error {
	for rank, m := range r.group.members {
		msg := build(rank)
		msg.Id = r.asked.ids[rank]
		if err := m.conn.Send(msg); err != nil {
			return fmt.Errorf("rank %d cannot be reached: %w", rank, err)
		}
	}
	return nil
}
