package rank

import (
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// How a group switches to other tables while calls go on.
//
// The gate is a call number. A call publishes its number and then looks at the gate; one that is not below it waits until
// the board says how the turn was settled: with the new tables from the gate on, or the old ones still. The agent moves the
// gate ahead of the ranks until each of them has set it before it began that call, and then commits, by one word that all
// ranks read. So the calls of one number are made by the same tables on all ranks, whoever dies.
//
// engine/agent/switch_model_test.go tries all orders of these steps.

// openGate is no gate: no call has such a number.
const openGate uint64 = math.MaxUint64

// setGate sets the gate of a turn and returns a number such that no call with a higher one has begun without having seen
// it.
//
// A call may have published its number while it is still on its way to memory, and have looked at the gate. But it has taken the
// group before, by a compare-and-swap: if the group is found free after the gate was set, every later call sees the gate,
// and if it is taken, the call is at most the one after the last that is visible.
func (g *Group) setGate(turn, number uint64) uint64 {
	g.mu.Lock()
	g.up.turn = turn
	atomic.StoreUint64(&g.gate, number)
	g.mu.Unlock()
	taken := atomic.LoadUint64(&g.busy) == inCall
	begun := g.board.Number(g.rank) // after busy
	if taken {
		begun++
	}
	return begun
}

const (
	gateYields = 100                    // looks at the turn with the core given away
	gateSleep  = 100 * time.Microsecond // between later ones
)

// atGate waits, in a call whose number is not below the gate, until the call may go on. The error is a group that has failed.
func (g *Group) atGate(number uint64) error {
	end := time.Now().Add(g.deadline)
	for round := 0; ; round++ {
		turn, fate := g.board.Turn() // before the gate: what is committed is committed for the gate set last
		if number < atomic.LoadUint64(&g.gate) || g.settle(turn, fate) {
			return nil
		}
		if atomic.LoadUint32(g.board.AbortWord()) != 0 {
			return g.aborted()
		}
		if g.session.isLost() || time.Now().After(end) {
			if awaited := g.awaited(); awaited != turn {
				return g.broken(number, fmt.Errorf("the agent has this rank wait for turn %d, but the board is at turn %d", awaited, turn))
			}
			g.board.SettleTurn(turn, rankv1.Abandoned) // for all ranks, unless it was committed before
			continue
		}
		if round < gateYields {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		} else {
			time.Sleep(gateSleep)
		}
	}
}

// awaited is the turn that the gate is set for.
func (g *Group) awaited() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.up.turn
}

// settle opens the gate if the turn is settled, with the new tables if it was committed. This rank is done with all calls
// below the gate. It reports whether the gate is open.
func (g *Group) settle(turn uint64, fate rankv1.Fate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.up
	if turn != u.turn || fate == rankv1.Open || atomic.LoadUint64(&g.gate) == openGate {
		return atomic.LoadUint64(&g.gate) == openGate
	}
	if fate == rankv1.Committed {
		for index, t := range u.staged {
			old := g.tables[index].Load()
			g.tables[index].Store(t)
			u.unused = append(u.unused, old.without(t)...)
		}
		u.staged, u.fresh = map[int]*table{}, map[int][]uint64{}
		u.switched = turn
	}
	atomic.StoreUint64(&g.gate, openGate) // after the tables: a call that finds it open finds them
	u.wake()
	return true
}

// without are the instances of a table that another one does not use.
func (t *table) without(other *table) []uint64 {
	var ids []uint64
	for _, e := range t.entries {
		if !other.uses(e.instance) {
			ids = append(ids, e.instance)
		}
	}
	return ids
}

func (t *table) uses(instance uint64) bool {
	for _, e := range t.entries {
		if e.instance == instance {
			return true
		}
	}
	return false
}
