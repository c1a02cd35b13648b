package exec

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	spins    = 1000             // looks at a signal between two looks at anything else
	patience = 4                // rounds of spins before the core is given away: the peer may be waiting for it (0.1 ms)
	yields   = 16               // yields between two looks at the clock
	interval = time.Millisecond // between two calls of Watch.Stalled
)

// wait runs a Wait: it returns when the peer's signal has come to the awaited tile and the peer is known to be making
// the same call.
//
// A signal found at a tile of this call must carry this call's tag. A peer found beyond the last tile has finished the
// call, which proves that all ranks agreed on it: a rank finishes a tile only with data that came from every rank, over
// waits that each compared tags, and the first to finish cannot have met a signal beyond that tile. So data is never
// taken from a peer that made another call, though its signal was overwritten since.
func (s *Schedule) wait(in *instr) error {
	want := s.next - in.lag
	v := atomic.LoadUint64(in.signal)
	if !reached(v, uint32(want)) {
		var err error
		if v, err = s.await(in, uint32(want)); err != nil {
			return err
		}
	}
	if uint32(v)-uint32(s.first) < s.tiles && uint32(v>>32) != s.tag {
		return &Mismatch{Rank: in.peer}
	}
	return nil
}

// reached compares tile numbers by signed difference, so that it is right where they wrap.
func reached(signal uint64, want uint32) bool { return int32(uint32(signal)-want) >= 0 }

// await is the slow path of wait.
func (s *Schedule) await(in *instr, want uint32) (uint64, error) {
	s.waited = Waited{}
	for round := 0; ; round++ {
		if !s.watch.Yield {
			spin(in.signal, want, spins)
		}
		if v := atomic.LoadUint64(in.signal); reached(v, want) {
			return v, nil
		}
		if err := s.check(in, round); err != nil {
			// A peer that has left or died gave its last signal before that was noticed, but perhaps after the look above.
			if v := atomic.LoadUint64(in.signal); reached(v, want) {
				return v, nil
			}
			return 0, err
		}
		if s.watch.Yield || round >= patience {
			// Raw, so that the Go scheduler does not take the P from a rank that will go on in a microsecond.
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}

// check says why there is no use in waiting on.
func (s *Schedule) check(in *instr, round int) error {
	if atomic.LoadUint32(s.watch.Abort) != 0 {
		return ErrAborted
	}
	if !s.watch.Yield || round%yields == 0 {
		return s.look(in)
	}
	return nil
}

// SetWatch changes what later calls look at, such as the deadline while a plan is tried. Not during a call.
func (s *Schedule) SetWatch(w Watch) { s.watch = w.withDefaults() }

// look is what happens after every round of spins, or of some yields.
func (s *Schedule) look(in *instr) error {
	now := time.Now()
	if s.looked.IsZero() {
		s.looked = now
	}
	waited := s.waited.Until(now)
	if now.Sub(s.looked) < interval {
		return nil
	}
	s.looked = now
	if s.watch.Stalled != nil {
		if err := s.watch.Stalled(); err != nil {
			return err
		}
	}
	if waited > s.watch.Deadline {
		return &Late{Rank: in.peer, Signal: in.number}
	}
	// The process's other goroutines, where GOMAXPROCS is small, a peer perhaps among them. Not sooner than after a
	// millisecond: a goroutine that is locked to its thread pays futex calls for this, and if those took longer than the
	// peer has patience, the ranks would make each other pay for ever.
	runtime.Gosched()
	return nil
}
