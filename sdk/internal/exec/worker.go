package exec

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/reduce"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// Worker is one rank's side of a worker plan. It is not safe for concurrent use.
type Worker struct {
	memory *workerv1.Memory
	rank   int
	watch  Watch

	// Overdue is called, once, when all ranks have handed a tile over and the worker has not done it for so long.
	Overdue  func()
	Patience time.Duration

	next   uint64 // number of the tile to be handed over next, from 1
	told   bool   // Overdue was called
	lost   bool   // the worker is gone
	failed error  // of an earlier call, final

	looked  time.Time // when Watch.Stalled was last called
	waited  Waited    // for the tile that is waited for
	working Waited    // on it by the worker: all ranks have handed it over
}

// NewWorker is the side of a rank in the worker's memory, which must stay mapped.
func NewWorker(m *workerv1.Memory, rank int, w Watch) *Worker {
	return &Worker{memory: m, rank: rank, watch: w.withDefaults(), next: 1}
}

// SetWatch changes what later calls look at. Not during a call.
func (w *Worker) SetWatch(watch Watch) { w.watch = watch.withDefaults() }

// Part is some bytes of a call's buffers.
type Part struct{ Offset, Bytes int64 }

// WorkerLost means that the worker ended during a call, or before it. The parts were not done, the rest was, and it is the
// same on every rank. Nothing was written to the parts of Dst.
type WorkerLost struct{ Parts []Part }

func (l *WorkerLost) Error() string {
	n := int64(0)
	for _, p := range l.Parts {
		n += p.Bytes
	}
	return fmt.Sprintf("the worker is gone; %d bytes are not reduced", n)
}

// Lost reports whether the worker is gone for good.
func (w *Worker) Lost() bool { return w.lost }

// Run makes one call. Every rank makes the same calls in the same order. The error is a *WorkerLost, after which every
// call fails so, at once; every other is final: see Schedule.Run. While ranks have cores it makes no system call but to
// wake a worker that sleeps.
func (w *Worker) Run(c Call) error {
	if w.failed != nil {
		return w.failed
	}
	if err := c.check(); err != nil {
		return err
	}
	if w.lost {
		return &WorkerLost{Parts: []Part{{0, c.Bytes}}}
	}
	if atomic.LoadUint32(w.watch.Abort) != 0 {
		w.failed = ErrAborted
		return w.failed
	}
	lost, err := w.run(c)
	if err != nil {
		w.failed = err
		return err
	}
	if lost != nil {
		w.lost = true
		return &WorkerLost{Parts: lost}
	}
	return nil
}

// run hands tiles over as far ahead as there are slots, and takes the results in order. lost are the parts whose tiles
// have failed.
func (w *Worker) run(c Call) (lost []Part, err error) {
	m, size := w.memory, w.memory.SlotBytes
	tiles := (c.Bytes + size - 1) / size
	if c.Bytes == 0 {
		return nil, nil
	}
	w.looked = time.Time{}
	first := w.next
	part := func(i int64) Part { return Part{i * size, min(size, c.Bytes-i*size)} }
	for taken := int64(0); taken < tiles; taken++ {
		for w.next < first+uint64(tiles) && w.next < first+uint64(taken)+uint64(m.Slots) {
			w.handOver(c, part(int64(w.next-first)))
		}
		fate, err := w.await(first + uint64(taken))
		if err != nil {
			return nil, err
		}
		p := part(taken)
		if fate == workerv1.Failed {
			lost = appendPart(lost, p)
			continue
		}
		out := m.Output(m.Slot(first + uint64(taken)))
		reduce.Copy(unsafe.Add(c.Dst, p.Offset), unsafe.Pointer(unsafe.SliceData(out)), int(p.Bytes))
	}
	return lost, nil
}

// appendPart adds a part that may continue the last one.
func appendPart(parts []Part, p Part) []Part {
	if n := len(parts); n > 0 && parts[n-1].Offset+parts[n-1].Bytes == p.Offset {
		parts[n-1].Bytes += p.Bytes
		return parts
	}
	return append(parts, p)
}

// handOver fills this rank's slot of the next tile.
func (w *Worker) handOver(c Call, p Part) {
	m, tile := w.memory, w.next
	in := m.Input(w.rank, m.Slot(tile))
	reduce.Copy(unsafe.Pointer(unsafe.SliceData(in)), unsafe.Add(c.Src, p.Offset), int(p.Bytes))
	if m.Arrive(w.rank, tile, w.record(c, p)) {
		m.RingDoorbell()
	}
	w.next++
}

func (w *Worker) record(c Call, p Part) workerv1.Record {
	return workerv1.Record{
		Call: c.Number, Bytes: p.Bytes, Total: c.Bytes, DataType: uint32(c.Class.DataType), Op: uint32(c.Class.Op),
	}
}

// await waits until a tile is done or has failed.
func (w *Worker) await(tile uint64) (fate uint32, err error) {
	m := w.memory
	w.waited, w.working = Waited{}, Waited{}
	word := m.Completion(m.Slot(tile))
	for round := 0; ; round++ {
		if !w.watch.Yield {
			spin(word, uint32(tile), spins)
		}
		if fate := m.Fate(tile); fate != 0 {
			return fate, nil
		}
		if atomic.LoadUint32(w.watch.Abort) != 0 {
			return 0, ErrAborted
		}
		switch {
		case round < patience:
		case round < patience+yields:
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		default:
			m.AwaitBell(func() bool { return m.Fate(tile) != 0 || atomic.LoadUint32(w.watch.Abort) != 0 }, interval)
			if err := w.look(tile); err != nil {
				if fate := m.Fate(tile); fate != 0 { // given up just before it was noticed
					return fate, nil
				}
				return 0, err
			}
		}
	}
}

// look is what happens about every millisecond of waiting.
func (w *Worker) look(tile uint64) error {
	now := time.Now()
	if w.looked.IsZero() {
		w.looked = now
	}
	waited := w.waited.Until(now)
	if now.Sub(w.looked) < interval {
		return nil
	}
	w.looked = now
	if rank, same := w.agreed(tile); !same {
		return &Mismatch{Rank: rank}
	}
	if w.watch.Stalled != nil {
		if err := w.watch.Stalled(); err != nil {
			return err
		}
	}
	missing := w.missing(tile)
	switch {
	case waited > w.watch.Deadline && missing >= 0:
		return &Late{Rank: missing}
	case waited > w.watch.Deadline:
		return fmt.Errorf("the worker did not do its part before the deadline, and nobody gave it up")
	case missing >= 0:
		return nil
	case w.working.Until(now) > w.Patience && w.Patience > 0 && !w.told && w.Overdue != nil:
		w.told = true
		w.Overdue()
	}
	return nil
}

// missing is a rank that has not handed a tile over; -1 for none.
func (w *Worker) missing(tile uint64) int {
	for rank := range w.memory.World {
		if !w.memory.Arrived(rank, tile) {
			return rank
		}
	}
	return -1
}

// agreed compares what the ranks that are there say of a tile with what this rank said.
func (w *Worker) agreed(tile uint64) (other int, same bool) {
	m := w.memory
	own := m.Record(w.rank, tile)
	for rank := range m.World {
		if m.Arrived(rank, tile) && m.Record(rank, tile) != own && m.Fate(tile) == 0 {
			return rank, false
		}
	}
	return 0, true
}

// WorkerRuns reports whether workers serve a class: they know host memory only.
func WorkerRuns(c collective.Class) bool { return c.Memory == collective.Host }
