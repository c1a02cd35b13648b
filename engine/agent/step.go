package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

func closeFiles(reports []stepReport) {
	for _, report := range reports {
		for _, f := range report.files {
			_ = f.Close()
		}
	}
}

// grace is what a rank gets beyond its own deadline to say that it missed it.
const grace = 5 * time.Second

// step sends one message to every rank and collects their reports, by rank, and of the backends that failed why. The caller
// closes the files of reports of telemetry.Prepare; those that come with others are closed.
func (r *resolution) step(step telemetry.Step, deadline time.Duration, chosen map[int]*instance, send func(*member, uint64) error) (done []stepReport, failed map[string][]backend.Reason, err error) {
	g := r.group
	reports := make(chan stepReport, len(g.members)+1)
	keys := lo.Map(g.members, func(m *member, rank int) stepKey { return stepKey{m, r.asked.ids[rank]} })
	if err := g.job.expect(keys, reports); err != nil {
		return nil, nil, err
	}
	defer func() {
		g.job.unexpect(keys)
		closeFiles(queued(reports)) // of ranks that answered when the step had failed
	}()
	for rank, m := range g.members {
		if err := send(m, r.asked.ids[rank]); err != nil {
			return nil, nil, fmt.Errorf("rank %d cannot be reached: %w", rank, err)
		}
	}
	deadline += cmp.Or(g.job.agent.opts.grace, grace)
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	waiting := lo.Associate(lo.Range(len(g.members)), func(rank int) (int, bool) { return g.ranks[rank], true })
	got := make([]stepReport, len(g.members))
	defer func() {
		if err != nil || step != telemetry.Prepare {
			closeFiles(got)
		}
	}()
	for len(waiting) > 0 {
		select {
		case report := <-reports:
			delete(waiting, report.rank)
			if report.done == nil {
				return nil, nil, r.broken(fmt.Sprintf("rank %d ended during %s", report.rank, step)) // the others may wait for it in the self-test
			}
			got[lo.IndexOf(g.ranks, report.rank)] = report
		case <-timer.C:
			return nil, nil, r.broken(fmt.Sprintf("%s did not report %s within %s", rankList(lo.Keys(waiting)), step, deadline))
		case <-r.upgrade.cancelled():
			return nil, nil, r.upgrade.why()
		case <-g.job.agent.done:
			return nil, nil, errors.New("the agent has been closed")
		}
	}
	failed = map[string][]backend.Reason{}
	for rank, report := range got { // by rank, so that the reasons do not depend on who was first
		for _, i := range slices.Sorted(maps.Keys(chosen)) {
			r.outcome(step, rank, report.done, chosen[i], failed)
		}
	}
	if err := g.deadError(); err != nil { // a rank may have found in this step that the group cannot go on
		return nil, nil, err
	}
	return got, failed, nil
}

// queued takes what is in a channel that nobody sends to any more.
func queued(reports <-chan stepReport) (all []stepReport) {
	for {
		select {
		case r := <-reports:
			all = append(all, r)
		default:
			return all
		}
	}
}

// broken is the error of a step that cannot be ended. Ranks that wait for the decision cannot go on; beside calls they do.
func (r *resolution) broken(text string) error {
	if r.upgrade != nil {
		return errors.New(text)
	}
	r.group.fail(text)
	return &deadGroup{r.group.id, text}
}

// outcome notes what one rank says of one instance. Saying nothing is no success.
func (r *resolution) outcome(step telemetry.Step, rank int, done *rankv1.StepDone, x *instance, failed map[string][]backend.Reason) {
	s := telemetry.RankStep{Step: step, Rank: rank, Backend: x.backend, Start: time.Unix(0, done.StartUnixNs), End: time.Unix(0, done.EndUnixNs)}
	o, found := lo.Find(done.Outcomes, func(o *rankv1.Outcome) bool { return o.Instance == x.id })
	if !found || o.Reason != nil {
		reason := backend.Reason{Code: backend.InitFailed, Text: "the rank said nothing of it"}
		if found {
			var err error
			if reason, err = pluginv1.ToReason(o.Reason); err != nil {
				reason = backend.Reason{Code: backend.InitFailed, Text: err.Error()}
			}
		}
		reason.Rank = rank
		s.Reason = &reason
		failed[x.backend] = append(failed[x.backend], reason)
	}
	r.trace.RankStep(s)
}

// expect has the reports of some requests sent to a channel, which must have room for one from each.
func (j *job) expect(keys []stepKey, reports chan<- stepReport) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range keys {
		if j.ranks[k.member.rank] != k.member {
			return fmt.Errorf("rank %d has ended", k.member.rank)
		}
	}
	for _, k := range keys {
		j.steps[k] = reports
	}
	return nil
}

func (j *job) unexpect(keys []stepKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range keys {
		delete(j.steps, k)
	}
}

// stepDone passes a rank's report on. One that nobody expects is late and of no use.
func (j *job) stepDone(m *member, id uint64, done *rankv1.StepDone, files map[uint64]*os.File) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key, report := stepKey{m, id}, stepReport{rank: m.rank, done: done, files: files}
	reports := j.steps[key]
	if reports == nil {
		closeFiles([]stepReport{report})
		return
	}
	reports <- report
	delete(j.steps, key) // one report each, so the channel never fills
}
