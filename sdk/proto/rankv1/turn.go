package rankv1

import "sync/atomic"

// Fate is how an upgrade of a group, a turn, stands.
type Fate uint64

// The fates. Open moves to one of the others, once.
const (
	Open      Fate = iota
	Committed      // the new tables hold from the gate's number on
	Abandoned      // the old tables stay
)

const fateBits = 2

// AgentIDs is the first of the ids that agents choose; ranks choose lower ones.
const AgentIDs = 1 << 63

// The turn's fate is one word on the board, so that all ranks read the same whoever dies: a message to each may reach some
// and not others. It moves by compare-and-swap, so that one who loses patience and the agent cannot both have their way.

// OpenTurn begins a turn. Only the agent calls it, when the turn before is settled on all ranks.
func (b *Board) OpenTurn(turn uint64) {
	atomic.StoreUint64(b.word64(offTurn), turn<<fateBits|uint64(Open))
}

// Turn is the last turn and its fate.
func (b *Board) Turn() (turn uint64, fate Fate) {
	v := atomic.LoadUint64(b.word64(offTurn))
	return v >> fateBits, Fate(v & (1<<fateBits - 1))
}

// SettleTurn gives a turn its fate if it has none, and reports whether it has this one now.
func (b *Board) SettleTurn(turn uint64, fate Fate) bool {
	settled := turn<<fateBits | uint64(fate)
	return atomic.CompareAndSwapUint64(b.word64(offTurn), turn<<fateBits|uint64(Open), settled) ||
		atomic.LoadUint64(b.word64(offTurn)) == settled
}

// Number is the number of the call that a rank began last.
func (b *Board) Number(rank int) uint64 { return atomic.LoadUint64(b.rank(rank, offNumber)) }

// Done is the number of the call that a rank ended last.
func (b *Board) Done(rank int) uint64 { return atomic.LoadUint64(b.rank(rank, offDone)) }
