package rank

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// workerSide is a worker plan prepared in this rank.
type workerSide struct {
	*exec.Worker
	memory *workerv1.Memory
	id     uint64 // of the instance
}

// watch is what this rank looks at while it waits in a call.
func (g *Group) watch() exec.Watch {
	return exec.Watch{
		Abort: g.board.AbortWord(), Deadline: g.deadline, Stalled: g.stalled,
		Yield: g.facts.Cores > 0 && g.session.worldSize > g.facts.Cores,
	}
}

// prepareWorker maps what is shared with a worker. g.mu is held.
func (d *decider) prepareWorker(m *rankv1.Instance, p *plan.Worker, control, inputs *sharedFile) error {
	g := d.group
	if !exec.WorkerRuns(d.class) {
		return fmt.Errorf("worker plans do not run on %s memory", d.class.Memory)
	}
	if control == nil || inputs == nil {
		return errors.New("the agent sent no memory for the plan")
	}
	memory, err := workerv1.Map(control.file, inputs.file)
	if err != nil {
		return err
	}
	if want := workerv1.ShapeOf(p, g.Size()); memory.Shape != want {
		memory.Unmap()
		return fmt.Errorf("the agent sent memory of the shape %+v, want %+v", memory.Shape, want)
	}
	w := &workerSide{Worker: exec.NewWorker(memory, g.rank, g.watch()), memory: memory, id: m.Id}
	w.Patience = time.Duration(m.WorkerPatienceNs)
	w.Overdue = func() { g.overdue(w.id) }
	g.instances[m.Id] = &instance{backend: m.Backend, worker: w, edges: []int64{p.SlotBytes}}
	return nil
}

// overdue tells the agent that a worker does not go on. Without an agent nobody can end the worker for good, so that all
// ranks know what it has done.
func (g *Group) overdue(instance uint64) {
	m := &rankv1.WorkerOverdue{Group: g.id, Instance: instance}
	if err := g.session.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_WorkerOverdue{WorkerOverdue: m}}); err != nil {
		g.fail(&GroupError{Group: g.id, Text: fmt.Sprintf("the worker does not answer, and the agent, which could end it, is gone: %v", err)})
	}
}

// tryWorker is the self-test of an instance.
func (d *decider) tryWorker(i *instance, ranges []backend.Range, deadline time.Duration) error {
	g, w, end := d.group, i.worker, time.Now().Add(deadline)
	trial := d.trialWatch(g.watch())
	defer w.SetWatch(g.watch())
	return exec.SelfTest(func(c exec.Call) error {
		if trial.Deadline = time.Until(end); trial.Deadline <= 0 {
			return fmt.Errorf("not done within %s", deadline)
		}
		w.SetWatch(trial)
		return w.Run(c)
	}, g.rank, g.Size(), d.class, ranges, i.edges, nil)
}

// runWorker makes a call by a worker, and what of it the worker does not do by others.
func (g *Group) runWorker(e *entry, call exec.Call) error {
	start := time.Now()
	err := e.worker.Run(call)
	var lost *exec.WorkerLost
	if errors.As(err, &lost) {
		if e, err = g.failOver(e, call, lost.Parts); err != nil {
			return g.ended(call.Number, err) // said by who found it, if the group cannot go on
		}
		g.board.By(g.rank, call.Number, e.counter)
	}
	if err != nil {
		return g.broken(call.Number, err)
	}
	if call.Number%rankv1.SampleEvery == 0 {
		g.board.Sample(g.rank, e.counter, int64(time.Since(start)))
	}
	g.board.Count(g.rank, e.counter, call.Bytes)
	g.board.End(g.rank, call.Number)
	return nil
}

// failOver has the class decided once more without a worker that is gone, as all ranks do, and makes the parts of the call
// that it has not done by whatever serves then. It returns who did the last of them.
func (g *Group) failOver(from *entry, call exec.Call, parts []exec.Part) (*entry, error) {
	start := time.Now()
	report := &rankv1.FailedOver{Group: g.id, Call: call.Number, Class: pluginv1.FromClass(call.Class), Bytes: call.Bytes, From: from.backend}
	for _, p := range parts {
		report.Redone += p.Bytes
	}
	lost := from.worker
	for {
		t, err := g.decide(call.Class, lost.id)
		if err != nil {
			return nil, fmt.Errorf("the worker of %s is gone: %w", from.backend, err)
		}
		e, left, err := g.redo(t, call, parts)
		switch {
		case err != nil:
			return nil, err
		case len(left) > 0:
			parts, lost = left, e.worker
			continue
		}
		report.To, report.AddedNs = e.backend, int64(time.Since(start))
		_ = g.session.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_FailedOver{FailedOver: report}}) // an agent that is gone keeps no log
		return e, nil
	}
}

// redo makes parts of a call. left are those that remain because another worker is gone, e's.
func (g *Group) redo(t *table, call exec.Call, parts []exec.Part) (e *entry, left []exec.Part, err error) {
	for n, p := range parts {
		i := t.lookup.Lookup(p.Bytes)
		if i == dispatch.None {
			return nil, nil, notServed(t, call.Class, p.Bytes)
		}
		e = &t.entries[i]
		c := call
		c.Dst, c.Src, c.Bytes = unsafe.Add(call.Dst, p.Offset), unsafe.Add(call.Src, p.Offset), p.Bytes
		if e.run != nil {
			err = e.run.Run(c)
		} else {
			err = e.worker.Run(c)
		}
		var lost *exec.WorkerLost
		switch {
		case errors.As(err, &lost):
			for _, q := range lost.Parts {
				left = append(left, exec.Part{Offset: p.Offset + q.Offset, Bytes: q.Bytes})
			}
			return e, append(left, parts[n+1:]...), nil
		case err != nil:
			return nil, nil, g.broken(call.Number, err)
		}
	}
	return e, nil, nil
}
