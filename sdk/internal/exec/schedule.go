// Package exec runs the plans of accepted backends inside a rank.
package exec

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/ordered"
	"github.com/weir-project/weir/sdk/internal/reduce"
)

// Call is one all-reduce as a rank makes it.
type Call struct {
	Class    collective.Class
	Dst, Src unsafe.Pointer // of Bytes bytes each, aligned to the element: the same address, or no overlap
	Bytes    int64          // the same on every rank; with 0 the ranks only wait for each other
	Number   uint64         // of the call within the group, so that a rank that is a call ahead or behind is noticed
}

// Watch says what a rank looks at while it waits for its peers.
type Watch struct {
	Abort    *uint32       // read atomically: not zero when the group has failed; nil for none. It is never written
	Deadline time.Duration // for what a peer does next; a call whose ranks go on may take longer. 0 means DefaultDeadline
	Yield    bool          // the ranks outnumber the cores: give the core away instead of spinning
	Stalled  func() error  // called about every millisecond of waiting; an error ends the call. May be nil
}

// DefaultDeadline is the longest that a rank waits for one step of a peer when Watch does not say.
const DefaultDeadline = 30 * time.Second

func (w Watch) withDefaults() Watch {
	if w.Deadline <= 0 {
		w.Deadline = DefaultDeadline
	}
	if w.Abort == nil {
		w.Abort = new(uint32)
	}
	return w
}

// Schedule is a schedule plan ready to be run by one rank. It is not safe for concurrent use.
type Schedule struct {
	programs [][]instr // by buffer; all addresses resolved
	small    [][]instr // the same for calls of up to smallBytes
	shared   []byte    // kept, since the programs point into it
	watch    Watch
	world    int
	chunks   int64
	tile     uint64 // bytes in a tile
	next     uint64 // number of the next tile; signals carry its lower half, zeroed memory means "nothing yet"
	failed   error  // of an earlier call
	windows  *windows
	rank     int
	past     bool // what peers read is written past the caches: see Tune
	holds    bool // a reduce reads the caller's buffers, so srcs must not keep them

	class     collective.Class // of the last call, if known, and what follows from it
	known     bool
	average   bool
	index     uint64 // of the class
	size      int64  // of an element; a power of two
	kernel    reduce.Kernel
	streaming reduce.Kernel // kernel for destinations that are written past the caches

	call // state of the call in progress; part of the Schedule so that nothing is allocated
}

type call struct {
	in, out unsafe.Pointer
	bytes   int64
	stream  bool // the destination is so large that it is written past the caches
	tag     uint32
	first   uint64           // its first tile
	tiles   uint32           // how many tiles it has
	srcs    []unsafe.Pointer // sources of the step in progress
	waited  Waited           // for the signal that is waited for
	looked  time.Time        // when Watch.Stalled was last called; zero until waiting takes long
}

// NewSchedule compiles the program of one rank. The shared memory is laid out as s says and is zeroed before the first
// rank runs; every rank sees the same. It must stay mapped as long as the Schedule is used.
func NewSchedule(s *plan.Schedule, rank int, shared []byte, w Watch) (*Schedule, error) {
	world := len(s.Programs)
	if err := s.Validate(world); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= world {
		return nil, fmt.Errorf("schedule: no rank %d in a group of %d", rank, world)
	}
	if need := s.SharedBytes(); int64(len(shared)) < need {
		return nil, fmt.Errorf("schedule: %d bytes of shared memory, needs %d", len(shared), need)
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(shared)))%8 != 0 {
		return nil, fmt.Errorf("schedule: the shared memory does not begin at a multiple of 8 bytes")
	}
	x := &Schedule{shared: shared, watch: w.withDefaults(), world: world, chunks: int64(s.Chunks), tile: uint64(s.TileBytes), next: 1}
	base := unsafe.Pointer(unsafe.SliceData(shared))
	x.programs = compile(s, rank, base, s.SlotOffset)
	x.small = x.programs
	if hasSmall(s) {
		x.small = compile(s, rank, base, func(rank, slot, buffer int) int64 { return smallOffset(s, rank, slot, buffer) })
	}
	x.rank, x.windows = rank, newWindows(s, base)
	x.srcs = make([]unsafe.Pointer, mostSources(s.Programs[rank]))
	x.holds = slices.ContainsFunc(s.Programs[rank], func(t plan.Step) bool {
		return (t.Kind == plan.Reduce || t.Final) && slices.ContainsFunc(t.Srcs, func(p plan.Place) bool { return p.Where != plan.Slot })
	})
	return x, nil
}

// streamFrom is the size of all ranks' messages together from which destinations are written past the caches: they would
// not stay there until they are read, and lines that are written whole need not be fetched first.
const streamFrom = 16 << 20

// Run makes one call. Every rank of the group makes the same calls in the same order; Run returns when this rank's Dst
// is complete and its Src may be changed. It takes no lock and allocates nothing.
//
// A call that no rank could make (an unknown type, a byte count that is not whole elements) is refused and leaves the
// Schedule as it was. Every other error is final, since the ranks are then no longer in step: ErrAborted, a *Mismatch,
// a *Late or what Stalled returned; every later Run returns it again.
func (s *Schedule) Run(c Call) error {
	if s.failed != nil {
		return s.failed
	}
	if c.Class != s.class || !s.known {
		if err := c.check(); err != nil {
			return err
		}
		s.become(c.Class)
	}
	if c.Bytes < 0 || c.Bytes&(s.size-1) != 0 || c.Bytes > 0 && (c.Dst == nil || c.Src == nil) {
		return c.check()
	}
	err := ErrAborted
	if atomic.LoadUint32(s.watch.Abort) == 0 {
		err = s.run(c)
	}
	s.failed = err
	return err
}

func (c Call) check() error {
	k := c.Class
	switch {
	case !k.DataType.Valid() || !k.Op.Valid() || k.Memory != collective.Host || k.Captured:
		return fmt.Errorf("a schedule cannot run a call of class %s", k)
	case c.Bytes < 0 || c.Bytes%int64(k.DataType.Size()) != 0:
		return fmt.Errorf("%d bytes are not a whole number of %s elements", c.Bytes, k.DataType)
	case c.Bytes > 0 && (c.Dst == nil || c.Src == nil):
		return fmt.Errorf("a call of %d bytes without a buffer", c.Bytes)
	}
	return nil
}

func (s *Schedule) run(c Call) error {
	s.in, s.out, s.bytes = c.Src, c.Dst, c.Bytes
	if s.windows != nil && c.Bytes > 0 {
		if err := s.publish(c); err != nil {
			return err
		}
	}
	s.stream = c.Bytes*int64(s.world) >= streamFrom
	s.tag = tagOf(s.index, c.Bytes, c.Number)
	s.looked = time.Time{}
	tile := int64(s.tile)
	tiles := int64(1)
	if c.Bytes > tile {
		tiles = (c.Bytes + tile - 1) / tile
	}
	programs := s.programs
	if c.Bytes <= smallBytes {
		programs = s.small
	}
	s.first, s.tiles = s.next, uint32(min(tiles, 1<<31-1))
	for i := range tiles {
		// The number is counted in 64 bits, so that the turn of the buffers does not break where signals wrap.
		turn := s.next & 1 // a division costs as much as the rest of a small call, and two copies are usual
		if len(programs) != 2 {
			turn = s.next % uint64(len(programs))
		}
		program := programs[turn]
		if err := s.runTile(program, i*tile, min(tile, c.Bytes-i*tile)); err != nil {
			return err
		}
		s.next++
	}
	if s.windows != nil && s.windows.bad != nil {
		return s.windows.bad
	}
	s.in, s.out = nil, nil // the buffers are the caller's again, also for its garbage collector
	if s.holds {
		clear(s.srcs)
	}
	return nil
}

// become prepares for calls of another class than the last one's.
func (s *Schedule) become(c collective.Class) {
	s.class, s.known, s.index = c, true, uint64(c.Index())
	s.size = int64(c.DataType.Size())
	s.kernel, s.streaming = reduce.For(c.DataType, c.Op), reduce.Streaming(c.DataType, c.Op)
	s.average = c.Op == collective.Avg
}

// runTile runs the program over the tile of that many bytes at an offset of the caller's buffers.
func (s *Schedule) runTile(program []instr, offset, bytes int64) error {
	for i := range program {
		in := &program[i]
		switch in.kind {
		case plan.Signal:
			ordered.Store64(in.signal, uint64(s.tag)<<32|uint64(uint32(s.next)))
		case plan.Wait:
			if err := s.wait(in); err != nil {
				return err
			}
		default:
			s.move(in, offset, bytes)
		}
	}
	return nil
}

// move runs a copy or reduce.
func (s *Schedule) move(in *instr, offset, bytes int64) {
	lo, n := int64(0), bytes
	if in.chunk != plan.AllChunks {
		lo, n = chunk(bytes, s.chunks, int64(in.chunk))
	}
	if n == 0 {
		return
	}
	dst := s.address(in.dst, offset, lo)
	divide := 1
	if in.final && s.average {
		divide = s.world
	}
	if in.kind == plan.Copy && divide == 1 {
		if src := s.address(in.srcs[0], offset, lo); src != dst {
			if s.pastCaches(in, n) {
				reduce.CopyStream(dst, src, int(n))
			} else {
				reduce.Copy(dst, src, int(n))
			}
		}
		return
	}
	srcs := s.srcs[:len(in.srcs)]
	for i, o := range in.srcs {
		srcs[i] = s.address(o, offset, lo)
	}
	kernel := s.kernel
	if s.pastCaches(in, n) {
		kernel = s.streaming
	}
	kernel(dst, srcs, int(n/s.size), divide)
}

// pastCaches reports whether a step writes so many bytes past the caches.
func (s *Schedule) pastCaches(in *instr, n int64) bool {
	if in.forPeers {
		return s.past && n >= pastFrom
	}
	return s.stream
}

// address is where an operand's part of the tile begins.
func (s *Schedule) address(o operand, offset, lo int64) unsafe.Pointer {
	switch o.where {
	case plan.In:
		return unsafe.Add(s.in, offset+lo)
	case plan.Out:
		return unsafe.Add(s.out, offset+lo)
	case plan.PeerIn:
		return unsafe.Add(s.peer(o.rank, 0, s.bytes), offset+lo)
	case plan.PeerOut:
		return unsafe.Add(s.peer(o.rank, 1, s.bytes), offset+lo)
	}
	return unsafe.Add(o.base, lo)
}

// chunk is where a chunk of a tile begins and how long it is, in bytes. Chunks are whole cache lines, so that no two
// ranks write to one; the last ones are shorter or empty.
func chunk(bytes, chunks, index int64) (lo, n int64) {
	const line = 64
	per := ((bytes+chunks-1)/chunks + line - 1) / line * line
	lo = min(bytes, index*per)
	return lo, min(per, bytes-lo)
}

// tagOf tells calls apart: two ranks whose tags differ have made different calls. It depends only on what all ranks
// must agree on, so never on addresses. Of different calls, one pair in four thousand million has equal tags.
func tagOf(class uint64, bytes int64, number uint64) uint32 {
	// The upper half of a sum of products with odd constants without a pattern: each factor reaches all of its bits.
	return uint32((class*0x9e3779b97f4a7c15 + uint64(bytes)*0xbf58476d1ce4e5b9 + number*0x94d049bb133111eb) >> 32)
}
