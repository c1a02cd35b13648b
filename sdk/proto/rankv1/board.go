package rankv1

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/ordered"
)

// Board is the memory that the agent and the ranks of one group share beside the plans: what each rank is doing, and
// how often it has done it. The agent makes it; a rank writes its own part only. Every word is read and written
// atomically, so that neither needs the other to look.
type Board struct {
	memory []byte
	world  int
}

// The layout: a page for the group, then two pages for each rank. Version 1.
const (
	boardPage  = 4096
	rankPages  = 2
	boardMagic = 0x57454952 // "WEIR"

	offMagic = 0  // uint32
	offWorld = 4  // uint32
	offAbort = 64 // uint32: not zero when the group has failed
	offTurn  = 72 // uint64: how the last upgrade stands: see Turn

	offWhyTaken = 80  // uint32: not zero once somebody writes why the group has failed
	offWhySize  = 84  // uint32: bytes of that text; 0 until it is all there
	offWhy      = 128 // the text, to the end of the page

	offNumber = 0  // uint64: number of the call begun last, from 1
	offWhat   = 8  // uint64: that call, in one word: number (lowest 14 bits), rejected (1), class index + 1 (9), bytes (40)
	offDone   = 16 // uint64: number of the call ended last
	offState  = 24 // uint32: RankState
	offReject = 32 // uint64: number of the call refused last
	offClock  = 40 // uint64: the group's clock, nanoseconds since 1970; the agent sets it
	offWaited = 48 // uint64: that clock when the rank last looked, waiting for its peers in a call: see Waits
	offSpace  = 56 // uint64: the rank's PID namespace: see Identify
	offBorn   = 64 // uint64: when its process was started

	offSampleHead = 128 // uint64: samples taken so far
	offSamples    = 192 // ring of uint64: counter in the upper 24 bits, nanoseconds in the lower 40
	numSamples    = 64

	offCounters = 1024 // pairs of uint64: calls, bytes

	// NumCounters is how many pairs of instance and class a group can tell apart; the last one takes the rest.
	NumCounters = 160
)

// SampleEvery is how many calls of a rank there are for each one whose duration is taken.
const SampleEvery = 64

// RankState is whether a rank still takes part.
type RankState uint32

// The states.
const (
	Active RankState = iota
	Left             // closed the group
	Lost             // its process has ended without that
)

// BoardSize is the size of a board in bytes.
func BoardSize(world int) int64 { return int64(1+rankPages*world) * boardPage }

// NewBoard lays a board out in zeroed memory.
func NewBoard(memory []byte, world int) *Board {
	b := &Board{memory: memory, world: world}
	atomic.StoreUint32(b.word32(offWorld), uint32(world))
	atomic.StoreUint32(b.word32(offMagic), boardMagic)
	return b
}

// OpenBoard reads a board that the agent laid out.
func OpenBoard(memory []byte, world int) (*Board, error) {
	b := &Board{memory: memory, world: world}
	if int64(len(memory)) < BoardSize(world) || atomic.LoadUint32(b.word32(offMagic)) != boardMagic ||
		atomic.LoadUint32(b.word32(offWorld)) != uint32(world) {
		return nil, fmt.Errorf("the group's board is not one of %d ranks", world)
	}
	return b, nil
}

func (b *Board) word32(off int) *uint32     { return (*uint32)(unsafe.Pointer(&b.memory[off])) }
func (b *Board) word64(off int) *uint64     { return (*uint64)(unsafe.Pointer(&b.memory[off])) }
func (b *Board) rank(rank, off int) *uint64 { return (*uint64)(b.at(rank, off)) }

// at is where a rank's part of the board has an offset.
func (b *Board) at(rank, off int) unsafe.Pointer {
	return unsafe.Pointer(&b.memory[(1+rankPages*rank)*boardPage+off])
}

// AbortWord is not zero once the group has failed. Executors poll it.
func (b *Board) AbortWord() *uint32 { return b.word32(offAbort) }

// Abort marks the group as failed.
func (b *Board) Abort() { atomic.StoreUint32(b.AbortWord(), 1) }

// AbortBecause marks the group as failed and leaves word of why, unless somebody has before: so all ranks have the same words, whether
// or not there is an agent to pass them on. What has no room is cut off.
func (b *Board) AbortBecause(why string) {
	if atomic.CompareAndSwapUint32(b.word32(offWhyTaken), 0, 1) {
		n := copy(b.memory[offWhy:boardPage], why)
		atomic.StoreUint32(b.word32(offWhySize), uint32(n))
	}
	b.Abort()
}

// Why is why the group has failed; "" if nobody has said so far.
func (b *Board) Why() string {
	n := atomic.LoadUint32(b.word32(offWhySize))
	return strings.ToValidUTF8(string(b.memory[offWhy:offWhy+min(n, boardPage-offWhy)]), "")
}

// Memory is the mapping, for whoever unmaps it.
func (b *Board) Memory() []byte { return b.memory }

// Begun is what a rank said of the call that it began last.
type Begun struct {
	Number   uint64 // from 1; 0 before the first call
	Done     uint64 // number of the call ended last
	Class    collective.Class
	Bytes    int64
	Rejected bool   // the rank refused the call's arguments and did not take part
	Refused  uint64 // number of the call refused last; 0 for none
	State    RankState
}

func (b Begun) String() string {
	switch {
	case b.Number == 0:
		return "no all-reduce yet"
	case b.Rejected:
		return fmt.Sprintf("all-reduce %d with arguments that it refused", b.Number)
	}
	return fmt.Sprintf("all-reduce %d of %d bytes, %s", b.Number, b.Bytes, b.Class)
}

// The word at offWhat. It holds the number's lowest bits too, so that a reader sees whether both words are of one call.
func packWhat(number uint64, rejected bool, class int, bytes int64) uint64 {
	what := number<<50 | uint64(class+1)<<40 | uint64(min(bytes, 1<<40-1))
	if rejected {
		what |= 1 << 49
	}
	return what
}

// Begin publishes that a rank begins a call. Only the rank itself calls it.
func (b *Board) Begin(rank int, number uint64, class int, bytes int64) {
	what := packWhat(number, false, class, bytes)
	b.Part(rank).recordBegin(number, what)
	ordered.Store64(b.rank(rank, offNumber), number)
	ordered.Store64(b.rank(rank, offWhat), what)
}

// Reject publishes that a rank refused a call's arguments and takes no part in it.
func (b *Board) Reject(rank int, number uint64) {
	what := packWhat(number, true, -1, 0)
	b.Part(rank).recordBegin(number, what)
	atomic.StoreUint64(b.rank(rank, offReject), number)
	ordered.Store64(b.rank(rank, offNumber), number)
	atomic.StoreUint64(b.rank(rank, offWhat), what)
	atomic.StoreUint64(b.rank(rank, offDone), number)
}

// End publishes that a rank ended a call.
func (b *Board) End(rank int, number uint64) {
	b.Part(rank).recordEnd(number)
	ordered.Store64(b.rank(rank, offDone), number)
}

// Leave publishes that a rank takes no further part: Left, or Lost.
func (b *Board) Leave(rank int, as RankState) {
	atomic.StoreUint32((*uint32)(b.at(rank, offState)), uint32(as))
}

// Begun reads what a rank published last.
func (b *Board) Begun(rank int) Begun {
	for try := 0; ; try++ {
		number := atomic.LoadUint64(b.rank(rank, offNumber))
		what := atomic.LoadUint64(b.rank(rank, offWhat))
		if what>>50 != number&(1<<14-1) {
			if try < 1000 {
				runtime.Gosched() // the rank is between its two stores
				continue
			}
			number -= min(number, 1) // it died there, so the word is of the call before
		}
		s := Begun{
			Number:   number,
			Done:     atomic.LoadUint64(b.rank(rank, offDone)),
			Bytes:    int64(what & (1<<40 - 1)),
			Rejected: what>>49&1 == 1,
			Refused:  atomic.LoadUint64(b.rank(rank, offReject)),
			State:    RankState(atomic.LoadUint32((*uint32)(b.at(rank, offState)))),
		}
		if index := int(what>>40&0x1ff) - 1; index >= 0 && index < collective.NumClasses {
			s.Class = collective.ClassAt(index)
		}
		return s
	}
}

// By publishes which backend's counter a rank's call runs by, before it does: who looks at a call that does not end sees
// whether it waits for a decision or in a plan.
func (b *Board) By(rank int, number uint64, counter uint32) { b.Part(rank).recordBy(number, counter) }

// Count adds a call of a rank to a counter, which is the backend's that ran it.
func (b *Board) Count(rank int, counter uint32, bytes int64) {
	at := offCounters + 16*int(min(counter, NumCounters-1))
	calls, total := b.rank(rank, at), b.rank(rank, at+8)
	ordered.Store64(calls, *calls+1) // no other writer
	ordered.Store64(total, *total+uint64(bytes))
}

// Counter reads a counter of a rank: calls, and bytes of one rank's buffers summed over them.
func (b *Board) Counter(rank int, counter uint32) (calls, bytes uint64) {
	at := offCounters + 16*int(min(counter, NumCounters-1))
	return atomic.LoadUint64(b.rank(rank, at)), atomic.LoadUint64(b.rank(rank, at+8))
}

// Sample records how long a call of a rank took.
func (b *Board) Sample(rank int, counter uint32, ns int64) {
	head := b.rank(rank, offSampleHead)
	n := *head
	ns = min(max(ns, 0), 1<<40-1)
	atomic.StoreUint64(b.rank(rank, offSamples+8*int(n%numSamples)), uint64(counter)<<40|uint64(ns))
	atomic.StoreUint64(head, n+1)
}

// Sample is how long one call took.
type Sample struct {
	Counter uint32
	Ns      int64
}

// Samples returns those taken since the given number of samples, and the number now. Older ones than the ring holds
// are lost, and so are those that the rank overwrote or may have been overwriting meanwhile.
func (b *Board) Samples(rank int, since uint64) (samples []Sample, now uint64) {
	now = atomic.LoadUint64(b.rank(rank, offSampleHead))
	since = max(since, oldest(now))
	first := since
	for ; since < now; since++ {
		v := atomic.LoadUint64(b.rank(rank, offSamples+8*int(since%numSamples)))
		samples = append(samples, Sample{Counter: uint32(v >> 40), Ns: int64(v & (1<<40 - 1))})
	}
	if lost := oldest(atomic.LoadUint64(b.rank(rank, offSampleHead))); lost > first {
		samples = samples[min(lost-first, uint64(len(samples))):]
	}
	return samples, now
}

// oldest is the first sample that is safe to read when the ring's head is at the given one, whose slot may be being
// written.
func oldest(head uint64) uint64 { return max(head, numSamples-1) - (numSamples - 1) }
