package rank

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// Warm decides request classes before their first call. All ranks of the group call it with the same classes in the
// same order.
func (g *Group) Warm(ctx context.Context, classes ...collective.Class) error {
	if !g.enter() {
		return g.busyError()
	}
	defer g.exit()
	g.forget()
	for _, c := range classes {
		if err := c.Validate(); err != nil {
			return err
		}
		if g.tables[c.Index()].Load() != nil {
			continue
		}
		if _, err := g.decideWithin(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// decide has a class decided for the whole group. The agent bounds every wait; the bound here is for an agent that
// hangs.
func (g *Group) decide(class collective.Class, lost ...uint64) (*table, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return g.decideWithin(ctx, class, lost...)
}

// decideWithin is decide until ctx ends. lost are instances whose workers are gone: see Resolve.
func (g *Group) decideWithin(ctx context.Context, class collective.Class, lost ...uint64) (*table, error) {
	s := g.session
	id, answers, err := s.begin(&rankv1.FromRank{Body: &rankv1.FromRank_Resolve{Resolve: &rankv1.Resolve{
		Group: g.id, Class: pluginv1.FromClass(class), Lost: lost,
	}}})
	if err != nil {
		return nil, fmt.Errorf("decide %s for group %s: %w", class, g.id, err)
	}
	defer s.end(id)
	d := &decider{group: g, class: class, id: id, offers: map[uint64]offered{}}
	for {
		r, err := s.answer(ctx, id, answers, g.failed, decisionPatience)
		if err != nil {
			if e := g.dead.Load(); e != nil {
				return nil, e
			}
			return nil, fmt.Errorf("decide %s for group %s: %w", class, g.id, err)
		}
		var t *table
		if m := r.message.GetCommit(); m != nil {
			t, err = d.commit(m)
		} else {
			err = d.step(r)
		}
		if err != nil { // also with a commit, which the other ranks have
			return nil, g.broken(g.calls, fmt.Errorf("decide %s: %w", class, err))
		}
		if t != nil {
			return t, nil
		}
	}
}

// decider is this rank's part in one resolution.
type decider struct {
	group *Group
	class collective.Class
	id    uint64
	tests []test

	offers   map[uint64]offered // what peers need to connect, by instance
	prepared []uint64           // instances that were not discarded

	beside *upgrades // nil unless calls go on meanwhile
	turn   uint64    // of the upgrade
}

// step does what a message before the commit asks for, and answers it.
func (d *decider) step(r *reply) error {
	switch body := r.message.Body.(type) {
	case *rankv1.ToRank_Prepare:
		return d.prepare(body.Prepare, r.files)
	case *rankv1.ToRank_Connect:
		defer r.discard()
		return d.connect(body.Connect, r.files)
	case *rankv1.ToRank_SelfTest:
		return d.selfTest(time.Duration(body.SelfTest.DeadlineNs), body.SelfTest.Abort)
	case *rankv1.ToRank_Discard:
		d.discard(body.Discard.Instances)
		return nil
	default:
		r.discard()
		return fmt.Errorf("unexpected answer %T", body)
	}
}

// prepare makes ready every instance that this rank does not have yet.
func (d *decider) prepare(m *rankv1.Prepare, memories []sharedFile) error {
	done := &rankv1.StepDone{StartUnixNs: time.Now().UnixNano()}
	d.tests = nil
	var files []*os.File // that go with the report
	for _, i := range m.Instances {
		var memory, inputs *sharedFile
		if i.Memory {
			memory, memories = &memories[0], memories[1:]
		}
		if i.Inputs {
			inputs, memories = &memories[0], memories[1:]
		}
		outcome := &rankv1.Outcome{Instance: i.Id}
		if reason := d.prepareOne(i, memory, inputs); reason != nil {
			outcome.Reason = pluginv1.FromReason(*reason)
		}
		if offer := d.offers[i.Id]; offer.file != nil {
			files, outcome.File = append(files, offer.file), true
			defer offer.file.Close()
		}
		outcome.Data = d.offers[i.Id].data
		for _, f := range []*sharedFile{memory, inputs} {
			if f != nil {
				_ = f.file.Close() // the mapping keeps the memory
			}
		}
		done.Outcomes = append(done.Outcomes, outcome)
	}
	return d.report(done, files...)
}

func (d *decider) prepareOne(m *rankv1.Instance, memory, inputs *sharedFile) *backend.Reason {
	g := d.group
	fail := func(code backend.Code, err error) *backend.Reason {
		r := g.refused(code, err)
		return &r
	}
	ranges, err := pluginv1.ToRanges(m.Ranges)
	if err != nil {
		return fail(backend.PlanRejected, err)
	}
	d.tests = append(d.tests, test{m.Id, ranges})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.instances[m.Id] != nil {
		return fail(backend.PlanRejected, fmt.Errorf("instance %d exists already", m.Id))
	}
	d.prepared = append(d.prepared, m.Id)
	p, err := pluginv1.ToPlan(m.Plan)
	if err == nil {
		err = p.Validate(g.Size())
	}
	if err != nil {
		return fail(backend.PlanRejected, err)
	}
	if k := p.Kind(); k == plan.LibraryKind || k == plan.KernelKind {
		if err := d.prepareDevice(m, p, memory); err != nil {
			r := g.reason(backend.InitFailed, err)
			return &r
		}
		return nil
	}
	if w, ok := p.(*plan.Worker); ok {
		if err := d.prepareWorker(m, w, memory, inputs); err != nil {
			return fail(backend.InitFailed, err)
		}
		return nil
	}
	s, ok := p.(*plan.Schedule)
	if !ok || d.class.Memory != collective.Host {
		return fail(backend.InitFailed, fmt.Errorf("%s plans do not run on %s memory", p.Kind(), d.class.Memory))
	}
	i := &instance{backend: m.Backend, edges: []int64{s.TileBytes}, trying: true}
	if size := s.MemoryBytes(); size > 0 { // a group of one may need none
		if memory == nil {
			return fail(backend.InitFailed, fmt.Errorf("the agent sent no memory for the plan"))
		}
		if i.memory, err = memory.mapAll(size); err != nil {
			return fail(backend.InitFailed, err)
		}
	}
	i.watch = g.watch()
	if i.run, err = exec.NewSchedule(s, g.rank, i.memory, i.watch); err != nil {
		i.unmap()
		return fail(backend.InitFailed, err)
	}
	if s.Direct() {
		trial := exec.Trial(s, i.memory)
		i.trial = &trial
	}
	g.instances[m.Id] = i
	return nil
}

// report answers a step. What was given up is no fault of the plan's, and nobody waits for the answer.
func (d *decider) report(done *rankv1.StepDone, files ...*os.File) error {
	if d.beside != nil && d.beside.over.Load() >= d.turn {
		return nil
	}
	done.EndUnixNs = time.Now().UnixNano()
	return d.group.session.conn.Send(&rankv1.FromRank{Id: d.id, Body: &rankv1.FromRank_StepDone{StepDone: done}}, files...)
}

// discard drops what will not be committed, and what is in force only if its worker is gone, for calls use the rest.
func (d *decider) discard(ids []uint64) {
	g := d.group
	g.mu.Lock()
	defer g.mu.Unlock()
	ids = slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool {
		i := g.instances[id]
		return g.inForce(id) && (d.beside != nil || i == nil || i.worker == nil || !i.worker.Lost())
	})
	g.dropInstances(ids)
	d.prepared = slices.DeleteFunc(d.prepared, func(id uint64) bool { return slices.Contains(ids, id) })
}

// inForce reports whether a table has an instance.
func (g *Group) inForce(instance uint64) bool {
	for i := range g.tables {
		if t := g.tables[i].Load(); t != nil && t.uses(instance) {
			return true
		}
	}
	return false
}

// dropInstances gives instances up that no call uses. g.mu is held.
func (g *Group) dropInstances(ids []uint64) {
	for _, id := range ids {
		if i := g.instances[id]; i != nil {
			i.unmap()
			g.drop(i)
			delete(g.instances, id)
		}
	}
}

// commit puts the decision in force.
func (d *decider) commit(m *rankv1.Commit) (*table, error) {
	g := d.group
	g.mu.Lock()
	defer g.mu.Unlock()
	t, err := d.table(m)
	if err != nil {
		return nil, err
	}
	g.up.supersede(d.class.Index())
	g.tables[d.class.Index()].Store(t)
	return t, nil
}

// table is what the agent has decided. g.mu is held.
func (d *decider) table(m *rankv1.Commit) (*table, error) {
	g, t := d.group, &table{}
	var segments []dispatch.Segment
	for _, s := range m.Segments {
		segment := dispatch.Segment{Max: s.Max}
		for _, c := range s.Choices {
			i := g.instances[c.Instance]
			if i == nil {
				return nil, fmt.Errorf("the agent committed instance %d, which was never prepared", c.Instance)
			}
			if (i.device != nil) != (d.class.Memory == collective.CUDA) {
				return nil, fmt.Errorf("the agent committed instance %d, of a plan that does not run on %s memory", c.Instance, d.class.Memory)
			}
			segment.Choices = append(segment.Choices, dispatch.Choice{Multiple: c.Multiple, Index: len(t.entries)})
			library, _ := i.device.(*exec.Library)
			t.entries = append(t.entries, entry{instance: c.Instance, backend: i.backend, counter: c.Counter, run: i.run, device: i.device, library: library, worker: i.worker})
		}
		segments = append(segments, segment)
	}
	for _, a := range m.Answers {
		v, err := pluginv1.ToVerdict(a.Verdict)
		if err != nil {
			return nil, fmt.Errorf("verdict of %s: %w", a.Backend, err)
		}
		t.answers = append(t.answers, dispatch.Answer{Backend: a.Backend, Plugin: a.Plugin, Verdict: v})
	}
	t.lookup = dispatch.TableOf(segments)
	return t, nil
}
