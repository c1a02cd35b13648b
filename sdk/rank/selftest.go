package rank

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// test is an instance that the self-test will run.
type test struct {
	id     uint64
	ranges []backend.Range
}

// selfTest runs every instance on inputs with known sums. Peers do the same at the same time.
func (d *decider) selfTest(deadline time.Duration, abort bool) error {
	g := d.group
	done := &rankv1.StepDone{StartUnixNs: time.Now().UnixNano()}
	end := time.Now().Add(deadline)
	for _, t := range d.tests {
		g.mu.Lock()
		i := g.instances[t.id]
		g.mu.Unlock()
		if i == nil {
			done.Outcomes = append(done.Outcomes, &rankv1.Outcome{Instance: t.id, Reason: pluginv1.FromReason(g.refused(backend.SelfTestFailed, errNotPrepared))})
			continue
		}
		if i.device != nil || i.worker != nil {
			outcome := &rankv1.Outcome{Instance: t.id}
			left := time.Until(end)
			var err error
			if i.worker != nil {
				err = d.tryWorker(i, t.ranges, left)
			} else {
				err = d.tryDevice(i, t.ranges, left, abort)
			}
			if err != nil {
				outcome.Reason = pluginv1.FromReason(g.reason(backend.SelfTestFailed, err))
			}
			done.Outcomes = append(done.Outcomes, outcome)
			continue
		}
		trial := d.trialWatch(i.watch)
		var memory []byte
		if i.trial != nil {
			i.run.SetWindows([]exec.Window{*i.trial})
			memory = i.trial.Part(g.rank)
		}
		err := exec.SelfTest(func(c exec.Call) error {
			if trial.Deadline = time.Until(end); trial.Deadline <= 0 {
				return fmt.Errorf("not done within %s", deadline)
			}
			i.run.SetWatch(trial)
			return i.run.Run(c)
		}, g.rank, g.Size(), d.class, t.ranges, i.edges, memory)
		if d.beside != nil {
			i.run.TuneAs(d.predecessor(i.backend))
		} else if failed := i.run.Tune(d.class, exec.TuneBytes(d.class.DataType, t.ranges), memory); failed != nil {
			err = failed // also of a rank that found a wrong sum: the others count on its part
		}
		i.run.SetWatch(i.watch)
		g.mu.Lock()
		i.run.SetWindows(g.windows)
		i.trying = false
		g.mu.Unlock()
		if memory != nil {
			_ = unix.Madvise(memory, unix.MADV_REMOVE) // not needed any more; kept if that fails
		}
		outcome := &rankv1.Outcome{Instance: t.id}
		if err != nil {
			outcome.Reason = pluginv1.FromReason(g.refused(backend.SelfTestFailed, err))
		}
		done.Outcomes = append(done.Outcomes, outcome)
	}
	return d.report(done)
}

// errAgentGone ends what is tried for a decision.
var errAgentGone = errors.New("the agent has ended")

// errNotPrepared is what is wrong with an instance that the agent asks for without having had it prepared.
var errNotPrepared = errors.New("it was never prepared")

// trialWatch is what a self-test looks at while it waits. No call is in progress that peers could be compared by; but
// without an agent there will be no decision. Beside calls that go on it gives the core away.
func (d *decider) trialWatch(w exec.Watch) exec.Watch {
	w.Stalled = func() error {
		if d.group.session.isLost() {
			return errAgentGone
		}
		return nil
	}
	if d.beside != nil {
		w.Stalled, w.Yield = d.stalled, true
	}
	return w
}

// predecessor is the schedule by which a backend serves the class so far; nil if it does not.
func (d *decider) predecessor(name string) *exec.Schedule {
	if t := d.group.tables[d.class.Index()].Load(); t != nil {
		for _, e := range t.entries {
			if e.backend == name {
				return e.run
			}
		}
	}
	return nil
}
