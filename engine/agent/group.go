package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
)

// group is a set of ranks of a job that all-reduce together.
type group struct {
	job     *job
	id      string
	ranks   []int     // members, by rank in the job
	members []*member // by rank of this group
	facts   collective.Group
	board   *rankv1.Board
	file    *os.File // of the board, until it is announced

	mu        sync.Mutex
	dead      string // why the group has failed; "" if it has not
	gone      []bool // by rank
	epoch     uint64
	asked     *asked          // the class that ranks wait to have decided
	upgrade   *upgrade        // in progress
	turn      uint64          // the last upgrade's number
	consulted map[uint64]bool // processes of plugins that a decision in progress asks
	pending   *pending        // the last switch, until all ranks have come to it
	resolved  bool            // backends were asked about the group
	onDevice  bool            // calls end on streams, where nobody here sees it
	shared    int64           // bytes of the instances' memory and of windows
	windows   []*registered   // memory of the callers, by number; nil where there is none
	kernels   map[string]int  // instances of kernel plans, by key
	lastID    uint64
	counters  []counter
	services  map[uint64]*service // workers of instances
	inForce   map[int]inForce     // by index of the class
	round     *round              // of the exchange in progress
	sampled   []uint64            // samples of each rank that are metrics already
	closed    bool                // the board is gone
	slow      map[int]*slow       // ranks, by rank
}

// newGroup makes the group and its board. j.mu is held.
func newGroup(j *job, ranks []int) (*group, error) {
	g := &group{
		job: j, id: j.agent.groupID(), ranks: ranks, gone: make([]bool, len(ranks)), sampled: make([]uint64, len(ranks)),
		services: map[uint64]*service{}, inForce: map[int]inForce{}, kernels: map[string]int{}, slow: map[int]*slow{},
	}
	g.members = lo.Map(ranks, func(r, _ int) *member { return j.ranks[r] })
	facts := lo.Map(g.members, func(m *member, _ int) collective.Rank { return m.facts })
	g.facts = GroupFacts(g.id, facts, j.agent.topology(), Wishes{Deterministic: j.agent.opts.Deterministic, ShareDevices: j.agent.opts.ShareDevices})
	size := rankv1.BoardSize(len(ranks))
	file, err := newShared("weir-board-"+g.id, size)
	if err != nil {
		return nil, err
	}
	memory, err := sealed.Map(file, size, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	g.file, g.board = file, rankv1.NewBoard(memory, len(ranks))
	g.board.SetClock(time.Now())
	return g, nil
}

// Wishes are what the configuration asks of every group, as far as backends are told (group.*).
type Wishes struct{ Deterministic, ShareDevices bool }

// Of is a group with the wishes.
func (w Wishes) Of(g collective.Group) collective.Group {
	g.Deterministic, g.ShareDevices = w.Deterministic, w.ShareDevices
	return g
}

// GroupFacts is what is known of a group of ranks on this host.
func GroupFacts(id string, ranks []collective.Rank, t topology.Graph, wishes Wishes) collective.Group {
	g := collective.HostGroup(id, len(ranks))
	g.Ranks = onOnlyNode(ranks, t.Host)
	g.Cores = min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) // the second knows of a container's quota
	g.Platform = runtime.GOOS + "/" + runtime.GOARCH
	g.P2P, g.P2PDetail = PeerAccess(ranks, t)
	g.Multicast = t.Multicast
	for a := range ranks {
		for b := range ranks {
			if a != b && ranks[a].Device != nil && ranks[b].Device != nil {
				g.Links[a][b] = linkBetween(t, *ranks[a].Device, *ranks[b].Device)
			}
		}
	}
	return wishes.Of(g)
}

// onOnlyNode puts ranks on the host's NUMA node if it has no other: no rank has to be bound for that to be known.
func onOnlyNode(ranks []collective.Rank, h topology.Host) []collective.Rank {
	if h.NUMANodes != 1 {
		return ranks
	}
	return lo.Map(ranks, func(r collective.Rank, _ int) collective.Rank {
		r.NUMA = cmp.Or(r.NUMA, "0")
		return r
	})
}

// linkBetween looks two devices up by identity, never by index.
func linkBetween(t topology.Graph, a, b topology.Device) topology.Link {
	i, j := t.Find(a), t.Find(b)
	if i < 0 || j < 0 || i == j {
		return topology.Link{}
	}
	return t.Links[i][j]
}

// announce tells every member that the group exists. ids are the requests that asked for it, by rank in the job.
func (g *group) announce(ids map[int]uint64) {
	members := lo.Map(g.ranks, func(r, _ int) int32 { return int32(r) })
	for rank, m := range g.members {
		err := m.conn.Send(&rankv1.ToRank{Id: ids[g.ranks[rank]], Body: &rankv1.ToRank_GroupReady{GroupReady: &rankv1.GroupReady{
			Group: g.id, Rank: int32(rank), Facts: pluginv1.FromGroup(g.facts), Ranks: members,
			DeadlineNs: int64(g.job.agent.opts.CallDeadline),
		}}}, g.file)
		if err != nil {
			g.fail(fmt.Sprintf("rank %d could not be told of the group: %s", rank, err))
		}
	}
	_ = g.file.Close() // the mapping and the ranks keep the memory
	g.job.agent.opts.Logger.Debug("new group", "group", g.id, "ranks", g.ranks)
}

// report says why the group has failed, or that it ends with its ranks.
func (g *group) report(why string) {
	opts := &g.job.agent.opts
	if opts.Ending != nil && opts.Ending() {
		opts.Logger.Debug("group ends", "group", g.id, "reason", why)
		return
	}
	opts.Logger.Error("group failed", "group", g.id, "error", why)
	if opts.Failed == nil {
		return
	}
	if s, ok := g.status(true); ok {
		opts.Failed(s)
	}
}

// fail ends the group: ranks in a call see the board, all are told why.
func (g *group) fail(text string) {
	g.mu.Lock()
	if g.dead != "" || g.closed {
		g.mu.Unlock()
		return
	}
	g.dead = text
	g.board.AbortBecause(text)
	waiting := g.dropAsked()
	g.cancelUpgrade(&deadGroup{g.id, text})
	round := g.round
	g.round = nil
	g.mu.Unlock()
	g.report(text)
	fault := &rankv1.ToRank{Body: &rankv1.ToRank_GroupFault{GroupFault: &rankv1.GroupFault{Group: g.id, Text: text}}}
	for rank, m := range g.members {
		if !g.isGone(rank) {
			_ = m.conn.Send(fault) // a rank that is gone needs no notice
		}
	}
	err := &deadGroup{g.id, text}
	for rank, id := range waiting {
		g.members[rank].refuse(id, err)
	}
	round.refuse(g, err)
}

// deadError is the failure of the group; nil if it has not failed.
func (g *group) deadError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead != "" {
		return &deadGroup{g.id, g.dead}
	}
	return nil
}

func (g *group) isGone(rank int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone[rank]
}

// left notes that a rank takes no further part: it has Left, or is Lost. why is a sentence about it.
func (g *group) left(rank int, as rankv1.RankState, why string) {
	g.mu.Lock()
	if g.gone[rank] || g.closed {
		g.mu.Unlock()
		return // the board may be gone too
	}
	g.gone[rank] = true
	g.board.Leave(rank, as)
	over := !slices.Contains(g.gone, false)
	g.cancelUpgrade(errors.New(why))
	g.mu.Unlock()
	g.passed(rank, 0)
	if over {
		g.close()
		return
	}
	g.abandon(rank, why)
}

// lost notes that a rank's process has ended. If it had ended every call that any rank began, nobody misses it;
// otherwise the group has failed.
func (g *group) lost(rank int, why string) {
	if g.isGone(rank) {
		return
	}
	last := g.board.Begun(rank)
	g.mu.Lock()
	onDevice := g.onDevice
	g.mu.Unlock()
	if onDevice { // its part of calls that it had begun may never be done
		g.fail(why + " without having left the group; it began " + last.String())
	}
	for peer := range g.members {
		if b := g.board.Begun(peer); b.Number > last.Done {
			g.fail(why + "; it began " + last.String())
			break
		}
	}
	g.left(rank, rankv1.Lost, why)
}

// abandon gives up what ranks wait for when one of them will not come.
func (g *group) abandon(rank int, why string) {
	g.mu.Lock()
	waiting := g.dropAsked()
	round := g.round
	g.round = nil
	g.mu.Unlock()
	err := fmt.Errorf("%s", why)
	for peer, id := range waiting {
		if peer != rank {
			g.members[peer].refuse(id, err)
		}
	}
	round.refuse(g, err)
}

// close lets the group go when the last rank has left.
func (g *group) close() {
	g.job.mu.Lock()
	delete(g.job.groups, g.id)
	g.job.mu.Unlock()
	g.job.agent.keepGroup(g, false)
	g.release()
	g.retire()
}

// release tells every backend that may have been asked about the group that it has ended.
func (g *group) release() {
	g.mu.Lock()
	resolved := g.resolved
	g.mu.Unlock()
	for _, c := range g.job.agent.opts.Candidates() {
		if resolved && c.Backend != nil {
			g.job.agent.release(c, g.id)
		}
	}
}

// cancel withdraws a rank's request if it still waits for other ranks, and says whether it did.
func (g *group) cancel(rank int, id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	withdrawn := false
	if a := g.asked; a != nil && !a.started && a.ids[rank] == id {
		withdrawn = true
		if a.ready {
			a.ready = false
			a.timer.Reset(g.job.agent.opts.CallDeadline)
		}
		if delete(a.ids, rank); len(a.ids) == 0 {
			g.dropAsked()
		}
	}
	if r := g.round; r != nil && r.ids[rank] == id { // ids begin at 1
		withdrawn = true
		if delete(r.ids, rank); len(r.ids) == 0 {
			r.timer.Stop()
			g.round = nil
		}
	}
	return withdrawn
}

// failIfDeciding ends the group if its ranks are in the middle of a decision, where they may wait for one another.
func (g *group) failIfDeciding(text string) {
	g.mu.Lock()
	deciding := g.asked != nil && g.asked.started
	g.cancelUpgrade(errors.New(text))
	g.mu.Unlock()
	if deciding {
		g.fail(text)
	}
}
