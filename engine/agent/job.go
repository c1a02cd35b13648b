package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// job is a set of ranks from when the first joins until the last has gone, and the groups among them.
type job struct {
	agent *Agent
	size  int

	mu      sync.Mutex
	ranks   []*member // by rank; nil has not joined
	exited  []string  // by rank: how its process ended, "" if it has not
	ended   []*member // whose processes are known to have ended, in that order
	lost    []int     // ranks whose connection ended though they were in a group, in that order
	formed  bool
	over    bool // failed to form, or everyone has gone
	groups  map[string]*group
	forming map[string]*gathering // by the members' ranks
	steps   map[stepKey]chan<- stepReport
}

type stepKey struct {
	member *member
	id     uint64
}

// stepReport is a rank's answer to Prepare or SelfTest.
type stepReport struct {
	rank int
	done *rankv1.StepDone // nil: the rank has gone

	files map[uint64]*os.File // that came with it, by instance
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
		j := a.currentJob()
		switch { // a.mu is not held: a job takes its own lock first
		case j.freshFor(rank):
			return j
		case j.leftBy(rank):
			return a.jobAfter(j)
		case time.Now().After(end):
			return j // which says that the rank has joined already
		}
	}
}

func (a *Agent) currentJob() *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.job
}

// jobAfter is the job that follows j.
func (a *Agent) jobAfter(j *job) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.job == j {
		a.job = newJob(a)
	}
	return a.job
}

// freshFor reports whether the job still gathers its ranks and lacks this one.
func (j *job) freshFor(rank int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.formed && !j.over && j.lacks(rank)
}

// lacks reports whether no process is the rank, which may be any. j.mu is held.
func (j *job) lacks(rank int) bool {
	if rank < 0 {
		return slices.Contains(j.ranks, nil)
	}
	return rank >= j.size || j.ranks[rank] == nil
}

// leftBy reports whether the job is one that the rank has left or that never came about.
func (j *job) leftBy(rank int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over || j.formed && j.lacks(rank)
}

// join adds a rank, or one that is free if it is below 0 (rankv1.AnyRank). The last one makes the group of all ranks.
func (j *job) join(m *member, id uint64, rank, worldSize int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if rather := -1 - rank; rank < 0 && rather < j.size && j.ranks[rather] == nil {
		rank = rather
	} else if rank < 0 {
		rank = slices.Index(j.ranks, nil)
	}
	switch {
	case worldSize != j.size:
		return fmt.Errorf("the agent serves %s, not %d", backend.Count(j.size, "rank"), worldSize)
	case rank < 0:
		return fmt.Errorf("all %d ranks of the agent are processes already; give it as many ranks as there are processes", j.size)
	case rank >= j.size:
		return fmt.Errorf("rank %d of %d does not exist", rank, j.size)
	case j.ranks[rank] != nil:
		return fmt.Errorf("rank %d has joined already, as process %d", rank, j.ranks[rank].facts.PID)
	}
	m.rank, m.job = rank, j
	j.ranks[rank] = m
	return j.gather(m, id, lo.Range(j.size))
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

// inTurn waits until the ranks that ended before this one have left, so that who ended only because of another is not blamed: the
// ends of connections are not read in the order in which they came. A child may hold a connection open for longer.
func (j *job) inTurn(m *member) {
	j.mu.Lock()
	before, _, _ := lo.Cut(j.ended, []*member{m})
	before = slices.Clone(before)
	j.mu.Unlock()
	end := time.After(leavePatience / 4)
	for _, first := range before {
		select {
		case <-first.left:
		case <-end:
			return
		}
	}
}

// leave takes a process out of the job when its connection has ended.
func (j *job) leave(m *member) {
	defer close(m.left)
	j.inTurn(m)
	j.mu.Lock()
	why := fmt.Sprintf("rank %d (process %d) has ended", m.rank, m.facts.PID)
	if m.gone != nil {
		why = fmt.Sprintf("rank %d (process %d) was cut off: %s", m.rank, m.facts.PID, m.gone)
	}
	if j.exited[m.rank] == "" {
		j.exited[m.rank] = why
	}
	why = j.exited[m.rank]
	groups := lo.Filter(lo.Values(j.groups), func(g *group, _ int) bool {
		i := slices.Index(g.ranks, m.rank)
		return i >= 0 && !g.isGone(i)
	})
	if len(groups) > 0 {
		j.lost = append(j.lost, m.rank)
	}
	j.dropWaiting(m.rank, why)
	for key, reports := range j.steps {
		if key.member == m {
			reports <- stepReport{rank: m.rank}
			delete(j.steps, key)
		}
	}
	j.ranks[m.rank] = nil
	// A rank that has ended does not come again: a job that has not formed by then never will, also if the rank had given its Join up.
	if !j.formed || lo.EveryBy(j.ranks, func(m *member) bool { return m == nil }) {
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
	j.ended = append(j.ended, j.ranks[rank])
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
