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

// SetClock sets the group's clock, of which every rank has a copy in its part. Only the agent calls it.
func (b *Board) SetClock(t time.Time) {
	for rank := range b.world {
		atomic.StoreUint64(b.rank(rank, offClock), uint64(t.UnixNano()))
	}
}

// recordBegin notes in a rank's part that it begins a call.
func (p *Part) recordBegin(number, what uint64) {
	r := &p.records[number%numRecords]
	ordered.StoreTwo64(&r[recNumber/8], number, &r[recEnd/8], 0)
	ordered.StoreTwo64(&r[recStart/8], atomic.LoadUint64(&p.clock), &r[recWhat/8], what)
	ordered.Store64(&r[recBy/8], 0)
}

// recordEnd notes that a call has ended, recordBy which backend's counter it ran by.
func (p *Part) recordEnd(number uint64) {
	ordered.Store64(&p.records[number%numRecords][recEnd/8], atomic.LoadUint64(&p.clock))
}

func (p *Part) recordBy(number uint64, counter uint32) {
	ordered.Store64(&p.records[number%numRecords][recBy/8], uint64(min(counter, NumCounters-1))+1)
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

// Waits publishes that a rank is in a call and waits for its peers: it looks every millisecond or so. What it costs is two loads
// and stores of a call that waits anyway.
func (b *Board) Waits(rank int) {
	ordered.Store64(b.rank(rank, offWaited), atomic.LoadUint64(b.rank(rank, offClock)))
}

// Waited is when a rank last said so; the zero time for never.
func (b *Board) Waited(rank int) time.Time {
	if at := atomic.LoadUint64(b.rank(rank, offWaited)); at != 0 {
		return time.Unix(0, int64(at))
	}
	return time.Time{}
}

// Started is when a rank began a call, or the oldest one after it that the recorder has; false if it has none such.
func (b *Board) Started(rank int, number uint64) (time.Time, bool) {
	last := b.Number(rank)
	if number > last {
		return time.Time{}, false
	}
	for number = max(number, max(last, numRecords)-numRecords+1); number <= last; number++ {
		if r, ok := b.record(rank, number); ok {
			return r.Start, true
		}
	}
	return time.Time{}, false
}

// Records are the last calls that a rank began, the oldest first. One that the rank writes meanwhile may be missing.
func (b *Board) Records(rank int) []Record {
	last := b.Begun(rank).Number // whatever the rank wrote
	var all []Record
	for back := min(last, numRecords); back > 0; back-- {
		if r, ok := b.record(rank, last-back+1); ok {
			all = append(all, r)
		}
	}
	return all
}

// String is what Begun's is.
func (r Record) String() string {
	return Begun{Number: r.Number, Class: r.Class, Bytes: r.Bytes, Rejected: r.Rejected}.String()
}

// RecordOf is a call of a rank; false if the recorder has it no more, or the rank writes it now.
func (b *Board) RecordOf(rank int, number uint64) (Record, bool) {
	if last := b.Number(rank); number == 0 || number > last || last-number >= numRecords {
		return Record{}, false
	}
	return b.record(rank, number)
}

// Differ is the first of the recorded calls that a rank made in another way than some peer, which of them was in device memory: such
// calls return before the ranks have met. Whether a call is captured counts once both have made it, and whether it was refused once the
// other is through with it: it may be about to be refused too.
func (b *Board) Differ(rank int) (number uint64, peer int, found bool) {
	own := b.Number(rank)
	for p := range b.world {
		last := min(own, b.Number(p))
		if p == rank || last == 0 {
			continue
		}
		for n := max(last, numRecords) - numRecords + 1; n <= last && (!found || n < number); n++ {
			mine, have := b.RecordOf(rank, n)
			theirs, has := b.RecordOf(p, n)
			if have && has && mine.differs(theirs) && !(n == own && mine.open(theirs)) && !(n == b.Number(p) && theirs.open(mine)) {
				number, peer, found = n, p, true
			}
		}
	}
	return number, peer, found
}

func (r Record) differs(other Record) bool {
	if r.Class.Memory != collective.CUDA && other.Class.Memory != collective.CUDA {
		return false // the plans of host memory compare by themselves
	}
	if !r.Ended || !other.Ended {
		other.Class.Captured = r.Class.Captured // it is published before that is known
	}
	return r.Rejected != other.Rejected || r.Class != other.Class || r.Bytes != other.Bytes
}

// open reports whether a call is in progress that a peer has refused.
func (r Record) open(peer Record) bool { return peer.Rejected && !r.Rejected && !r.Ended }

func (b *Board) record(rank int, number uint64) (Record, bool) {
	r := &b.Part(rank).records[number%numRecords]
	load := func(off int) uint64 { return atomic.LoadUint64(&r[off/8]) }
	end := load(recEnd) // first: a call may be published twice, and then it ends as the second time says
	what, by := load(recWhat), load(recBy)
	x := Record{
		Number: number, Bytes: int64(what & (1<<40 - 1)), Rejected: what>>49&1 == 1,
		Start: time.Unix(0, int64(load(recStart))), End: time.Unix(0, int64(end)), Ended: end != 0, Counter: int(by) - 1,
	}
	if index := int(what>>40&0x1ff) - 1; index >= 0 && index < collective.NumClasses {
		x.Class = collective.ClassAt(index)
	}
	return x, load(recNumber) == number && what>>50 == number&(1<<14-1)
}
