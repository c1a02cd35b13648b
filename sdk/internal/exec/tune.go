package exec

import (
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// Writing what peers read past the caches costs the writer little and spares the readers a line that another core has modified:
// on some processors, and where a hypervisor has put the cores far apart, that halves the time of a call; on others the
// way over memory is longer. Nothing but trying tells, so every rank tries.
const (
	pastFrom   = 2 << 10   // bytes that a step writes, from which it can pay
	tuneBytes  = 64 << 10  // of the calls made to try
	tuneMost   = 512 << 10 // where a plan serves none as short
	tuneCalls  = 8         // in one measurement
	tuneRounds = 4         // of two measurements each, the first to warm up
	tuneMargin = 0.95      // going past the caches must be that much faster
)

// TuneBytes is the byte count that Tune should try for the ranges that a plan is to serve; 0 if there is nothing to try.
func TuneBytes(dt collective.DataType, ranges []backend.Range) int64 {
	most := int64(0)
	for _, r := range ranges {
		step := max(r.Multiple, 1) * int64(dt.Size())
		n := min(r.Max, max(tuneBytes, r.Min+step-1)) / step * step
		if n >= 2*pastFrom && n <= tuneMost && r.Contains(n) {
			most = max(most, n)
		}
	}
	return most
}

// Tune makes some calls to find out whether to write what peers read past the caches. All ranks of the group call it at the
// same time with the same arguments but for memory, which is where the buffers lie, as for SelfTest; each finds out for
// itself, which changes no result. It does nothing where ranks share cores, and so caches.
func (s *Schedule) Tune(class collective.Class, bytes int64, memory []byte) error {
	if s.watch.Yield || s.world == 1 || bytes == 0 || s.failed != nil {
		return nil
	}
	if memory == nil {
		memory = aligned(2 * bytes)
	}
	bytes = min(bytes, int64(len(memory)/2))
	c := Call{Class: class, Src: unsafe.Pointer(&memory[0]), Dst: unsafe.Pointer(&memory[len(memory)/2]), Bytes: bytes}
	best := [2]time.Duration{time.Hour, time.Hour}
	for round := range tuneRounds {
		for i, past := range [2]bool{false, true} {
			s.past = past
			begin := time.Now()
			for range tuneCalls {
				if err := s.Run(c); err != nil {
					return err
				}
			}
			if round > 0 {
				best[i] = min(best[i], time.Since(begin))
			}
		}
	}
	s.past = float64(best[1]) < tuneMargin*float64(best[0])
	return nil
}

// TuneAs takes over what another schedule has found out, where there is no quiet to measure. A nil one knows nothing.
func (s *Schedule) TuneAs(other *Schedule) {
	if other != nil {
		s.past = other.past
	}
}
