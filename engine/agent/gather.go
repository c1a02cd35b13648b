package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/samber/lo"
)

// gathering is a group that some of its ranks have asked for.
type gathering struct {
	ranks   []int          // members, by rank in the job
	ids     map[int]uint64 // request of each that has asked, by rank in the job
	timer   *time.Timer
	created bool
}

// newGroup adds a member's wish for a group.
func (j *job) newGroup(m *member, id uint64, wanted []int32) error {
	ranks := lo.Map(wanted, func(r int32, _ int) int { return int(r) })
	for i, r := range ranks {
		if r < 0 || r >= j.size {
			return fmt.Errorf("there is no rank %d among %d", r, j.size)
		}
		if slices.Contains(ranks[:i], r) {
			return fmt.Errorf("rank %d is named twice", r)
		}
	}
	if !slices.Contains(ranks, m.rank) {
		return fmt.Errorf("rank %d asks for a group that it is not in", m.rank)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.gather(m, id, ranks)
}

// gather notes that a member is ready for the group of the given ranks and makes the group when all are. j.mu is held.
func (j *job) gather(m *member, id uint64, ranks []int) error {
	if err := j.missingForGood(ranks); err != nil {
		return err
	}
	key := fmt.Sprint(slices.Sorted(slices.Values(ranks)))
	w := j.forming[key]
	if w != nil && !slices.Equal(w.ranks, ranks) {
		err := fmt.Errorf("rank %d asks for a group of ranks %v and others for %v: the order is the new group's and must be the same", m.rank, ranks, w.ranks)
		j.giveUp(key, w, err)
		return err
	}
	if w == nil {
		w = &gathering{ranks: ranks, ids: map[int]uint64{}}
		j.forming[key] = w
		deadline := j.agent.opts.JoinDeadline
		w.timer = time.AfterFunc(deadline, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.giveUp(key, w, fmt.Errorf("%s did not within %s", rankList(w.missing()), deadline))
		})
	}
	if _, twice := w.ids[m.rank]; twice {
		return fmt.Errorf("rank %d asks for the group of ranks %v a second time before the first has answered", m.rank, ranks)
	}
	w.ids[m.rank] = id
	if len(w.missing()) > 0 {
		return nil
	}
	w.timer.Stop()
	w.created = true
	delete(j.forming, key)
	g, err := newGroup(j, ranks)
	if err != nil {
		j.over = j.over || !j.formed
		j.refuseAll(w, err)
		return nil
	}
	j.formed = true
	j.groups[g.id] = g
	j.agent.keepGroup(g, true)
	j.agent.wg.Go(func() { g.announce(w.ids) }) // not under the lock: a rank may be slow to read
	return nil
}

func (w *gathering) missing() []int {
	return lo.Filter(w.ranks, func(r, _ int) bool { _, asked := w.ids[r]; return !asked })
}

// missingForGood says whether a rank that a group needs has ended.
func (j *job) missingForGood(ranks []int) error {
	for _, r := range ranks {
		if j.exited[r] != "" {
			return fmt.Errorf("%s", j.exited[r])
		}
	}
	return nil
}

// giveUp refuses a group that will not be complete. j.mu is held.
func (j *job) giveUp(key string, w *gathering, why error) {
	if w.created || j.forming[key] != w {
		return // it was completed meanwhile
	}
	w.timer.Stop()
	delete(j.forming, key)
	what := "form a group"
	if len(w.ranks) == j.size && !j.formed {
		what = "join"
		j.over = true
	}
	j.refuseAll(w, fmt.Errorf("%d of %d ranks asked to %s: %w", len(w.ids), len(w.ranks), what, why))
}

// refuseAll answers those who wait for a group. j.mu is held, so it does not wait for a rank that is slow to read.
func (j *job) refuseAll(w *gathering, err error) {
	level := slog.LevelError
	if ending := j.agent.opts.Ending; ending != nil && ending() {
		level = slog.LevelDebug
	}
	j.agent.opts.Logger.Log(j.agent.background(), level, "no group", "ranks", w.ranks, "error", err)
	for rank, id := range w.ids {
		if m := j.ranks[rank]; m != nil {
			go m.refuse(id, err)
		}
	}
}

// errWithdrawn answers a request that its rank has cancelled.
var errWithdrawn = errors.New("the request was withdrawn")

// cancel withdraws a member's request if it still waits for other ranks.
func (j *job) cancel(m *member, id uint64) {
	j.mu.Lock()
	withdrawn := false
	for key, w := range j.forming {
		if have, waits := w.ids[m.rank]; waits && have == id {
			withdrawn = true
			delete(w.ids, m.rank)
			if len(w.ids) == 0 {
				w.timer.Stop()
				delete(j.forming, key)
			}
		}
	}
	groups := lo.Filter(lo.Values(j.groups), func(g *group, _ int) bool { return slices.Contains(g.ranks, m.rank) })
	j.mu.Unlock()
	for _, g := range groups {
		withdrawn = g.cancel(slices.Index(g.ranks, m.rank), id) || withdrawn
	}
	if withdrawn {
		m.refuse(id, errWithdrawn)
	}
}
