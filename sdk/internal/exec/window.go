package exec

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/ordered"
)

// Window is registered memory of a group: a part for each rank, mapped whole in every rank.
type Window struct {
	Base   unsafe.Pointer // of rank 0's part in this process
	Stride int64          // bytes from one rank's part to the next one's
	Bytes  int64          // of a part
}

// Part is a rank's part.
func (w Window) Part(rank int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(w.Base, int64(rank)*w.Stride)), w.Bytes)
}

// offset is where in a rank's part memory of that many bytes begins; ok is false if it does not lie within.
func (w Window) offset(rank int, at unsafe.Pointer, bytes int64) (offset int64, ok bool) {
	offset = int64(uintptr(at) - uintptr(w.Base) - uintptr(int64(rank)*w.Stride)) // wraps for what lies before
	return offset, w.Base != nil && offset >= 0 && offset <= w.Bytes-bytes
}

// Find is the window that memory of a rank lies in, and where; the window is -1 if it lies in none.
func Find(windows []Window, rank int, at unsafe.Pointer, bytes int64) (window int, offset int64) {
	for i := range windows {
		if offset, ok := windows[i].offset(rank, at, bytes); ok {
			return i, offset
		}
	}
	return -1, 0
}

// Trial is the registered memory behind the shared memory of a direct schedule, to try it with.
func Trial(s *plan.Schedule, memory []byte) Window {
	return Window{Base: unsafe.Pointer(&memory[s.SharedBytes()]), Stride: 2 * plan.TrialBytes, Bytes: 2 * plan.TrialBytes}
}

// windows is what a direct schedule knows of the callers' buffers.
type windows struct {
	all   []Window
	words []*[2]uint64     // by rank: where its buffers lie, as it says
	peers []unsafe.Pointer // by rank, in and out: resolved for this call; nil if not yet
	bad   error            // a rank said nonsense
}

// wordsOffset is where a rank says where its buffers lie: in the second line of its first signal's pair of lines.
const wordsOffset = 64

// A word has the number of the window in the upper 16 bits and the offset in the lower 48.
const offsetBits = 48

func newWindows(s *plan.Schedule, shared unsafe.Pointer) *windows {
	if !s.Direct() {
		return nil
	}
	w := &windows{peers: make([]unsafe.Pointer, 2*len(s.Programs))}
	for rank := range s.Programs {
		w.words = append(w.words, (*[2]uint64)(unsafe.Add(shared, s.SignalOffset(rank, 0)+wordsOffset)))
	}
	return w
}

// SetWindows says what memory is registered: the same windows in the same order on every rank. Not during a call.
func (s *Schedule) SetWindows(all []Window) {
	if s.windows != nil {
		s.windows.all = all
	}
}

// publish says where this rank's buffers lie, before its first signal of the call.
func (s *Schedule) publish(c Call) error {
	w := s.windows
	clear(w.peers)
	w.bad = nil
	for i, at := range [2]unsafe.Pointer{c.Src, c.Dst} {
		window, offset := Find(w.all, s.rank, at, c.Bytes)
		if window < 0 {
			return fmt.Errorf("a buffer of %d bytes does not lie in registered memory", c.Bytes)
		}
		ordered.Store64(&w.words[s.rank][i], uint64(window)<<offsetBits|uint64(offset))
	}
	return nil
}

// peer is where the buffer of a rank's caller begins; which is 0 for its source and 1 for its destination. A wait has
// made sure that the rank has said it for this call.
func (s *Schedule) peer(rank, which int, bytes int64) unsafe.Pointer {
	w := s.windows
	at := &w.peers[2*rank+which]
	if *at == nil {
		word := atomic.LoadUint64(&w.words[rank][which])
		window, offset := int(word>>offsetBits), int64(word&(1<<offsetBits-1))
		if window >= len(w.all) || offset > w.all[window].Bytes-bytes {
			w.bad = fmt.Errorf("rank %d says that its buffer lies outside of the registered memory", rank)
			return [2]unsafe.Pointer{s.in, s.out}[which]
		}
		*at = unsafe.Add(w.all[window].Base, int64(rank)*w.all[window].Stride+offset)
	}
	return *at
}
