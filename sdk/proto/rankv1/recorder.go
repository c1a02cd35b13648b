package rankv1

import (
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/ordered"
)

// The flight recorder: the last calls of every rank, in the second page of its part of the board. A call's record is at the
// place of its number modulo how many there are.
const (
	offRecords = boardPage
	recordSize = 64
	numRecords = boardPage / recordSize

	recNumber = 0  // uint64: of the call; stored first
	recWhat   = 8  // uint64: as at offWhat
	recStart  = 16 // uint64: the group's clock when it began
	recEnd    = 24 // uint64: the clock when it ended; 0 if it has not
	recBy     = 32 // uint64: 1 + the counter of the backend that ran it; 0 for none
)

// ClockEvery is how often the agent sets the group's clock, and so how exact the recorder's times are. The processor's own
// clock would cost a small call a third of its time.
const ClockEvery = 10 * time.Millisecond

// SetClock sets the group's clock. Only the agent calls it.
func (b *Board) SetClock(t time.Time) { atomic.StoreUint64(b.word64(offClock), uint64(t.UnixNano())) }

// Clock is the group's clock.
func (b *Board) Clock() time.Time { return time.Unix(0, int64(atomic.LoadUint64(b.word64(offClock)))) }

func (b *Board) recordOf(rank int, number uint64) *[recordSize / 8]uint64 {
	return (*[recordSize / 8]uint64)(b.at(rank, offRecords+recordSize*int(number%numRecords)))
}

// recordBegin notes that a rank begins a call.
func (b *Board) recordBegin(rank int, number, what uint64) {
	r := b.recordOf(rank, number)
	ordered.Store64(&r[recNumber/8], number)
	ordered.Store64(&r[recEnd/8], 0)
	ordered.Store64(&r[recBy/8], 0)
	ordered.Store64(&r[recStart/8], atomic.LoadUint64(b.word64(offClock)))
	ordered.Store64(&r[recWhat/8], what)
}

// recordEnd notes that it has ended.
func (b *Board) recordEnd(rank int, number uint64) {
	ordered.Store64(&b.recordOf(rank, number)[recEnd/8], atomic.LoadUint64(b.word64(offClock)))
}

// Record is a call of a rank as the recorder has it.
type Record struct {
	Number     uint64
	Class      collective.Class
	Bytes      int64
	Rejected   bool // the rank refused its arguments
	Start, End time.Time
	Ended      bool
	Counter    int // of the backend that ran it; -1 for none so far
}

// Records are the last calls that a rank began, the oldest first. One that the rank writes meanwhile may be missing.
func (b *Board) Records(rank int) []Record {
	last := b.Begun(rank).Number
	var all []Record
	for number := max(last, numRecords) - numRecords + 1; number <= last; number++ {
		if r, ok := b.record(rank, number); ok {
			all = append(all, r)
		}
	}
	return all
}

func (b *Board) record(rank int, number uint64) (Record, bool) {
	r := b.recordOf(rank, number)
	load := func(off int) uint64 { return atomic.LoadUint64(&r[off/8]) }
	what, end, by := load(recWhat), load(recEnd), load(recBy)
	x := Record{
		Number: number, Bytes: int64(what & (1<<40 - 1)), Rejected: what>>49&1 == 1,
		Start: time.Unix(0, int64(load(recStart))), End: time.Unix(0, int64(end)), Ended: end != 0, Counter: int(by) - 1,
	}
	if index := int(what>>40&0x1ff) - 1; index >= 0 && index < collective.NumClasses {
		x.Class = collective.ClassAt(index)
	}
	return x, load(recNumber) == number && what>>50 == number&(1<<14-1)
}
