package rank

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// Group is a set of ranks that all-reduce together. Like an NCCL communicator it takes one call at a time: every rank
// makes the same calls in the same order, and a second call begun before the first has returned is an error.
type Group struct {
	busy uint64 // idle, inCall or shut; read and written atomically
	repeat

	session  *Session
	id       string
	rank     int
	ranks    []int // members by their rank in World
	deadline time.Duration
	board    *rankv1.Board
	facts    collective.Group

	tables *[collective.NumClasses]atomic.Pointer[table]
	gate   uint64 // calls from this number on wait: see atGate; read and written atomically

	windows   []exec.Window // registered memory; one that was given back is empty; written while busy, as are the four below
	lastTable *table        // of the last call, with what it looked up
	lastBytes int64
	lastEntry *entry
	checker   *device.Checker // of what calls on device memory are given

	mu          sync.Mutex // of what follows; never held in a decided call
	instances   map[uint64]*instance
	devicePlans map[string]*shared // by what tells plans apart
	order       *exec.Order        // of calls with kernel plans; nil before the first

	deviceMemory []*DeviceMemory // written while busy too, so that calls may read it
	watched      *deviceWatch
	closed       bool          // the memory is gone
	failed       chan struct{} // closed once dead is set

	up *upgrades // nil before the first
}

// The states of a group's busy word.
const (
	idle uint64 = iota
	inCall
	shut
)

// table is a decision in force for one class.
type table struct {
	lookup  *dispatch.Table // indices are positions in entries
	entries []entry
	answers []dispatch.Answer
}

// entry is what runs a range of byte counts.
type entry struct {
	instance uint64
	backend  string
	counter  uint32
	run      *exec.Schedule
	device   deviceCaller  // of classes in device memory, instead of run
	library  *exec.Library // device, if it is one
	worker   *workerSide   // instead of run
}

// instance is a plan prepared in this rank, with the memory that it shares with its peers.
type instance struct {
	backend string
	run     *exec.Schedule
	watch   exec.Watch
	memory  []byte
	trial   *exec.Window // of a direct schedule: the part of memory to try it with
	edges   []int64      // byte counts at which its behaviour changes
	trying  bool         // its windows are the self-test's

	device devicePlan // of a plan for device memory, which has nothing of the above but the backend
	key    string     // in devicePlans

	worker *workerSide // of a worker plan
}

func (i *instance) unmap() {
	if i.worker != nil {
		i.worker.memory.Unmap()
	}
	if i.memory != nil {
		_ = unix.Munmap(i.memory)
	}
}

// GroupError says why a group cannot go on. Every later call on it fails with the same error.
type GroupError struct {
	Group string
	Text  string
}

func (e *GroupError) Error() string { return fmt.Sprintf("group %s has failed: %s", e.Group, e.Text) }

// open makes the group that a GroupReady describes.
func (s *Session) open(r *reply) (*Group, error) {
	m := r.message.GetGroupReady()
	if m == nil || len(r.files) != 1 {
		r.discard()
		return nil, fmt.Errorf("the agent answered with something else than a group")
	}
	facts, err := pluginv1.ToGroup(m.Facts)
	if err != nil {
		r.discard()
		return nil, fmt.Errorf("facts of the group: %w", err)
	}
	world := facts.WorldSize()
	memory, err := r.files[0].mapAll(rankv1.BoardSize(world))
	r.discard()
	if err != nil {
		return nil, err
	}
	board, err := rankv1.OpenBoard(memory, world)
	if err != nil || int(m.Rank) < 0 || int(m.Rank) >= world || len(m.Ranks) != world {
		_ = unix.Munmap(memory)
		return nil, fmt.Errorf("the agent's description of the group is inconsistent")
	}
	g := &Group{
		session: s, id: m.Group, rank: int(m.Rank), deadline: time.Duration(m.DeadlineNs), board: board, facts: facts, tables: new([collective.NumClasses]atomic.Pointer[table]),
		instances: map[uint64]*instance{}, devicePlans: map[string]*shared{}, gate: openGate, watched: &deviceWatch{}, failed: make(chan struct{}),
	}
	g.part = board.Part(g.rank)
	board.Identify(g.rank)
	for _, r := range m.Ranks {
		g.ranks = append(g.ranks, int(r))
	}
	s.mu.Lock()
	s.groups[g.id] = g
	text, failed := s.faults[g.id]
	s.mu.Unlock()
	if failed {
		g.fail(&GroupError{Group: g.id, Text: text})
	}
	return g, nil
}

// Rank is this process's rank in the group.
func (g *Group) Rank() int { return g.rank }

// Size is the number of ranks in the group.
func (g *Group) Size() int { return len(g.ranks) }

// Ranks are the members, by their rank in the group of all ranks.
func (g *Group) Ranks() []int { return append([]int(nil), g.ranks...) }

// Facts are what the decisions for the group are made on.
func (g *Group) Facts() collective.Group { return g.facts }

// Err is nil, or the *GroupError with which every further call fails.
func (g *Group) Err() error {
	if e := g.dead.Load(); e != nil {
		return e
	}
	return nil
}

// Exchange gives every rank's bytes to every rank, by rank. All ranks of the group call it; the agent passes the bytes
// on, so it is for set-up and not for data.
func (g *Group) Exchange(ctx context.Context, data []byte) ([][]byte, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if atomic.LoadUint64(&g.busy) == shut {
		return nil, fmt.Errorf("exchange in group %s: %w", g.id, ErrClosed)
	}
	r, err := g.session.ask(ctx, &rankv1.FromRank{Body: &rankv1.FromRank_Exchange{Exchange: &rankv1.Exchange{Group: g.id, Data: data}}})
	if err != nil {
		return nil, fmt.Errorf("exchange in group %s: %w", g.id, err)
	}
	defer r.discard()
	all := r.message.GetExchanged()
	if all == nil || len(all.Data) != len(g.ranks) {
		return nil, fmt.Errorf("exchange in group %s: the agent answered with something else", g.id)
	}
	return all.Data, nil
}

// Barrier waits until every rank of the group has called it.
func (g *Group) Barrier(ctx context.Context) error {
	_, err := g.Exchange(ctx, nil)
	return err
}

// Close leaves the group. It fails while a call is in progress.
func (g *Group) Close() error {
	if !atomic.CompareAndSwapUint64(&g.busy, idle, shut) {
		if atomic.LoadUint64(&g.busy) == shut {
			return nil
		}
		return fmt.Errorf("close group %s: %w", g.id, ErrBusy)
	}
	g.endUpgrades()
	g.mu.Lock()
	plans := g.devicePlans
	g.devicePlans = nil
	g.mu.Unlock()
	dead := g.dead.Load() != nil
	unfinished := errors.Join(g.freeDeviceMemory(dead), closeDevicePlans(plans, dead)) // before the peers are told
	g.mu.Lock()
	defer g.mu.Unlock()
	g.board.Leave(g.rank, rankv1.Left)
	s := g.session
	s.mu.Lock()
	delete(s.groups, g.id)
	s.mu.Unlock()
	_ = s.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Leave{Leave: &rankv1.Leave{Group: g.id}}}) // an agent that is gone needs no notice
	for _, i := range g.instances {
		i.unmap()
	}
	g.instances = nil
	for _, w := range g.windows {
		unmapWindow(w, g.Size())
	}
	g.windows = nil
	g.closed = true
	return errors.Join(unfinished, unix.Munmap(g.board.Memory()))
}

// fail makes the group fail on this rank; the first error stays.
func (g *Group) fail(e *GroupError) *GroupError {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead.Load() == nil && !g.closed {
		g.board.AbortBecause(e.Text)
		if first := g.board.Why(); first != "" { // of whoever gave it up first: the same words on every rank
			e = &GroupError{Group: e.Group, Text: first}
		}
	}
	if g.dead.CompareAndSwap(nil, e) {
		close(g.failed)
	}
	return g.dead.Load()
}
