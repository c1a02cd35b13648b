package agent

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// job is a set of ranks from when the first joins until the last has gone, and the groups among them.
type job struct {
	agent *Agent
	size  int

	mu      sync.Mutex
	ranks   []*member // by rank; nil has not joined
	exited  []string  // by rank: how its process ended, "" if it has not
	formed  bool
	over    bool // failed to form, or everyone has gone
	groups  map[string]*group
	forming map[string]*gathering // by the members' ranks
	steps   map[stepKey]chan<- stepReport
}

// gathering is a group that some of its ranks have asked for.
type gathering struct {
	ranks   []int          // members, by rank in the job
	ids     map[int]uint64 // request of each that has asked, by rank in the job
	timer   *time.Timer
	created bool
}

type stepKey struct {
	member *member
	id     uint64
}

// stepReport is a rank's answer to Prepare or SelfTest.
type stepReport struct {
	rank int
	done *rankv1.StepDone // nil: the rank has gone
}

func newJob(a *Agent) *job {
	n := a.opts.WorldSize
	return &job{
		agent: a, size: n, ranks: make([]*member, n), exited: make([]string, n),
		groups: map[string]*group{}, forming: map[string]*gathering{}, steps: map[stepKey]chan<- stepReport{},
	}
}

// leavePatience is how long a process that joins waits for its predecessor in the job before: a process is gone a moment
// before the agent has noticed.
const leavePatience = 2 * time.Second

// jobFor is the job that a process may join as a rank: a new one once that rank of the last job has left it.
func (a *Agent) jobFor(rank int) *job {
	for end := time.Now().Add(leavePatience); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		j := a.job
		if j.freshFor(rank) {
			a.mu.Unlock()
			return j
		}
		if j.leftBy(rank) {
			a.job = newJob(a)
			a.mu.Unlock()
			return a.job
		}
		a.mu.Unlock()
		if time.Now().After(end) {
			return j // which says that the rank has joined already
		}
	}
}

// freshFor reports whether the job still gathers its ranks and lacks this one.
func (j *job) freshFor(rank int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.formed && !j.over && (rank < 0 || rank >= j.size || j.ranks[rank] == nil)
}

// leftBy reports whether the job is one that the rank has left or that never came about.
func (j *job) leftBy(rank int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over || j.formed && (rank < 0 || rank >= j.size || j.ranks[rank] == nil)
}

// join adds a rank. The last one makes the group of all ranks.
func (j *job) join(m *member, id uint64, rank, worldSize int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case worldSize != j.size:
		return fmt.Errorf("the agent serves %d ranks, not %d", j.size, worldSize)
	case rank < 0 || rank >= j.size:
		return fmt.Errorf("rank %d of %d does not exist", rank, j.size)
	case j.ranks[rank] != nil:
		return fmt.Errorf("rank %d has joined already, as process %d", rank, j.ranks[rank].facts.PID)
	}
	m.rank, m.job = rank, j
	j.ranks[rank] = m
	return j.gather(m, id, lo.Range(j.size))
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
	key := fmt.Sprint(ranks)
	w := j.forming[key]
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

func (j *job) refuseAll(w *gathering, err error) {
	j.agent.opts.Logger.Error("no group", "ranks", w.ranks, "error", err)
	for rank, id := range w.ids {
		if m := j.ranks[rank]; m != nil {
			m.refuse(id, err)
		}
	}
}

// group is the group of an id, and the member's rank in it.
func (j *job) group(m *member, id string) (*group, int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := j.groups[id]
	if g == nil {
		return nil, 0, fmt.Errorf("there is no group %q", id)
	}
	rank := slices.Index(g.ranks, m.rank)
	if rank < 0 {
		return nil, 0, fmt.Errorf("rank %d is not in group %q", m.rank, id)
	}
	return g, rank, nil
}

// leave takes a process out of the job when its connection has ended.
func (j *job) leave(m *member) {
	j.mu.Lock()
	why := fmt.Sprintf("rank %d (process %d) has ended", m.rank, m.facts.PID)
	if m.gone != nil {
		why = fmt.Sprintf("rank %d (process %d) was cut off: %s", m.rank, m.facts.PID, m.gone)
	}
	if j.exited[m.rank] == "" {
		j.exited[m.rank] = why
	}
	why = j.exited[m.rank]
	groups := lo.Filter(lo.Values(j.groups), func(g *group, _ int) bool { return slices.Contains(g.ranks, m.rank) })
	j.dropWaiting(m.rank, why)
	for key, reports := range j.steps {
		if key.member == m {
			reports <- stepReport{rank: m.rank}
			delete(j.steps, key)
		}
	}
	j.ranks[m.rank] = nil
	if j.formed && lo.EveryBy(j.ranks, func(m *member) bool { return m == nil }) {
		j.over = true
	}
	j.mu.Unlock()
	for _, g := range groups {
		g.lost(slices.Index(g.ranks, m.rank), why)
	}
}

// rankExited is leave for a process that may never have connected.
func (j *job) rankExited(rank int, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if rank < 0 || rank >= j.size {
		return
	}
	if j.ranks[rank] == nil { // otherwise the end of its connection will say so
		j.exited[rank] = why
		j.dropWaiting(rank, why)
		return
	}
	j.exited[rank] = why
}

// dropWaiting gives up the groups that wait for a rank that has ended. j.mu is held.
func (j *job) dropWaiting(rank int, why string) {
	for key, w := range j.forming {
		if slices.Contains(w.ranks, rank) {
			delete(w.ids, rank)
			j.giveUp(key, w, fmt.Errorf("%s", why))
		}
	}
}

func rankList(ranks []int) string {
	ranks = slices.Sorted(slices.Values(ranks))
	return lo.Ternary(len(ranks) == 1, "rank ", "ranks ") + strings.Join(lo.Map(ranks, func(r, _ int) string { return fmt.Sprint(r) }), ", ")
}
