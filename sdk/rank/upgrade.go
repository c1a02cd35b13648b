package rank

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// upgrades is a group's part in decisions that the agent makes anew while calls go on. A goroutine takes it.
type upgrades struct {
	group *Group
	queue chan *reply
	kick  chan struct{} // has room for one
	stop  chan struct{} // closed when the group is
	done  chan struct{} // closed when the goroutine has ended
	over  atomic.Uint64 // no turn up to this one goes on: what is tried for it is given up

	deciders map[uint64]*decider // of the turn, by id

	// Guarded by the group's mu.
	turn     uint64           // that the gate is set for
	staged   map[int]*table   // from the gate on, by index of the class
	fresh    map[int][]uint64 // instances prepared for the turn, by index of the class
	unused   []uint64         // instances that no call will use
	switched uint64           // the last turn that this rank has switched in
}

// upgradeQueue is more than an agent sends before it waits for an answer.
const upgradeQueue = 64

// toUpgrades passes a message of an upgrade on to whose group it is. Those of groups that this process has left are of no
// use: the agent has been told.
func (s *Session) toUpgrades(r *reply) {
	m := r.message
	group := ""
	switch body := m.Body.(type) {
	case *rankv1.ToRank_Upgrade:
		group = body.Upgrade.Group
	case *rankv1.ToRank_Gate:
		group = body.Gate.Group
	case *rankv1.ToRank_Switch:
		group = body.Switch.Group
	}
	s.mu.Lock()
	g := s.groups[group]
	if group == "" {
		g = s.upgrading[m.Id]
	}
	if m.GetUpgrade() != nil && g != nil {
		s.upgrading[m.Id] = g
	}
	s.mu.Unlock()
	if g == nil || !g.upgrade(r) {
		r.discard()
	}
}

// upgrade queues a message; false if the group takes none any more.
func (g *Group) upgrade(r *reply) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || atomic.LoadUint64(&g.busy) == shut {
		return false
	}
	if g.up == nil {
		g.up = &upgrades{
			group: g, queue: make(chan *reply, upgradeQueue), kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
			deciders: map[uint64]*decider{}, staged: map[int]*table{}, fresh: map[int][]uint64{},
		}
		go g.up.serve()
	}
	if sw := r.message.GetSwitch(); sw != nil && !sw.Committed {
		g.up.giveUp(sw.Turn)
	}
	select {
	case g.up.queue <- r:
		return true
	default:
		return false // an agent that does not keep to the protocol; it will get no answer
	}
}

// giveUp has what is tried for a turn, or an earlier one, end soon.
func (u *upgrades) giveUp(turn uint64) {
	for before := u.over.Load(); before < turn && !u.over.CompareAndSwap(before, turn); before = u.over.Load() {
	}
}

// endUpgrades ends the goroutine, before the group's memory goes.
func (g *Group) endUpgrades() {
	g.mu.Lock()
	u := g.up
	g.mu.Unlock()
	if u == nil {
		return
	}
	u.giveUp(math.MaxUint64)
	close(u.stop)
	<-u.done
}

func (u *upgrades) wake() {
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

// An idle rank looks whether it may switch at growing intervals: nothing waits for it but the old instances' memory.
const (
	firstLook   = time.Millisecond
	longestLook = time.Second
)

func (u *upgrades) serve() {
	defer close(u.done)
	lost, look := u.group.session.done, firstLook
	for {
		select {
		case <-u.stop:
			u.drain()
			return
		case r := <-u.queue:
			u.take(r)
			look = firstLook
		case <-lost:
			lost = nil
			u.drain()
			u.orphaned()
		case <-u.kick:
		case <-u.due(look):
			look = min(2*look, longestLook)
		}
		u.progress()
	}
}

// due fires when it is time to look whether an idle rank may switch.
func (u *upgrades) due(after time.Duration) <-chan time.Time {
	if atomic.LoadUint64(&u.group.gate) == openGate {
		return nil
	}
	return time.After(after)
}

func (u *upgrades) drain() {
	for {
		select {
		case r := <-u.queue:
			r.discard()
		default:
			return
		}
	}
}

// orphaned is the end of the agent: a turn that it has not committed never will be.
func (u *upgrades) orphaned() {
	g := u.group
	g.mu.Lock()
	turn := u.turn
	g.mu.Unlock()
	if atomic.LoadUint64(&g.gate) == openGate || g.board.SettleTurn(turn, rankv1.Abandoned) {
		u.abandon()
	}
}

// progress switches a rank that is between two calls, if it is time, and drops what no call uses any more.
func (u *upgrades) progress() {
	g := u.group
	if gate := atomic.LoadUint64(&g.gate); gate != openGate {
		turn, fate := g.board.Turn()
		if fate == rankv1.Abandoned || g.board.Done(g.rank)+1 >= atomic.LoadUint64(&g.gate) {
			g.settle(turn, fate)
		}
	}
	g.mu.Lock()
	unused, switched := u.unused, u.switched
	u.unused, u.switched = nil, 0
	g.dropInstances(unused)
	g.mu.Unlock()
	if switched != 0 {
		u.forget()
		_ = g.session.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Switched{Switched: &rankv1.Switched{Group: g.id, Turn: switched}}}) // an agent that is gone needs no notice
	}
}

// forget drops the deciders of a turn that is over.
func (u *upgrades) forget() {
	s := u.group.session
	s.mu.Lock()
	for id := range u.deciders {
		delete(s.upgrading, id)
	}
	s.mu.Unlock()
	u.deciders = map[uint64]*decider{}
}

// abandon drops all that was prepared for a turn. The gate is opened, if it was set.
func (u *upgrades) abandon() {
	g := u.group
	g.mu.Lock()
	for _, d := range u.deciders {
		u.unused = append(u.unused, d.prepared...)
	}
	u.staged, u.fresh = map[int]*table{}, map[int][]uint64{}
	atomic.StoreUint64(&g.gate, openGate)
	g.mu.Unlock()
	u.forget()
}

// take does what a message asks for. An error is an agent that cannot be answered, which the receiver will find out.
func (u *upgrades) take(r *reply) {
	g, id := u.group, r.message.Id
	d := u.deciders[id]
	switch body := r.message.Body.(type) {
	case *rankv1.ToRank_Upgrade:
		class, err := pluginv1.ToClass(body.Upgrade.Class)
		if err == nil && class.Validate() == nil {
			u.deciders[id] = &decider{group: g, class: class, id: id, offers: map[uint64]offered{}, beside: u, turn: body.Upgrade.Turn}
		}
		return
	case *rankv1.ToRank_Gate:
		begun := g.setGate(body.Gate.Turn, body.Gate.Number)
		_ = g.session.conn.Send(&rankv1.FromRank{Id: id, Body: &rankv1.FromRank_StepDone{StepDone: &rankv1.StepDone{Begun: begun}}})
		return
	case *rankv1.ToRank_Switch:
		if !body.Switch.Committed {
			u.abandon()
		}
		return
	}
	if d == nil {
		r.discard()
		return
	}
	if m := r.message.GetCommit(); m != nil {
		_ = d.report(&rankv1.StepDone{StartUnixNs: time.Now().UnixNano(), Outcomes: u.stage(d, m)})
		return
	}
	_ = d.step(r)
}

// stage keeps a table for when the gate is passed.
func (u *upgrades) stage(d *decider, m *rankv1.Commit) []*rankv1.Outcome {
	g := u.group
	g.mu.Lock()
	defer g.mu.Unlock()
	t, err := d.table(m)
	index := d.class.Index()
	if err == nil && g.tables[index].Load() == nil {
		err = fmt.Errorf("class %s was never decided", d.class)
	}
	if err != nil {
		return []*rankv1.Outcome{{Reason: pluginv1.FromReason(g.refused(backend.InitFailed, err))}}
	}
	u.staged[index], u.fresh[index] = t, d.prepared
	return nil
}

// supersede drops what an upgrade has in store for a class that the ranks have decided themselves meanwhile, because a
// worker was lost: all of them do so in the same call, before the gate. g.mu is held.
func (u *upgrades) supersede(index int) {
	if u == nil || u.staged[index] == nil {
		return
	}
	u.unused = append(u.unused, u.fresh[index]...)
	delete(u.staged, index)
	delete(u.fresh, index)
	u.wake()
}

var errGivenUp = errors.New("the upgrade was given up")

// stalled looks, while a plan is tried beside others, whether there is any use in it.
func (d *decider) stalled() error {
	if e := d.group.dead.Load(); e != nil {
		return e
	}
	if d.beside.over.Load() >= d.turn {
		return errGivenUp
	}
	return nil
}
