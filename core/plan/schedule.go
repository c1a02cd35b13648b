package plan

import (
	"fmt"
	"slices"
)

// Schedule is a program per rank over memory that the ranks of one host share.
//
// A message is cut into tiles of at most TileBytes, numbered without gap through all calls of a group; each rank runs
// its program once per tile. A tile is divided into Chunks equal parts (whole cache lines, the last ones shorter or
// empty). Every rank owns Slots slots, each long enough for one tile and present Buffers times; tile t uses copy t mod
// Buffers. An element keeps its offset within the tile in every slot. Every rank owns Signals signals; setting one
// publishes the tile's number.
//
// A schedule may read the buffers of the other ranks' callers, PeerIn and PeerOut, from when their call has begun until it
// returns. It then only serves registered memory, and its signals and waits must keep within those bounds.
type Schedule struct {
	TileBytes int64 // multiple of 64
	Buffers   int
	Slots     int
	Signals   int
	Chunks    int
	Programs  [][]Step // Programs[rank]
}

// StepKind is an instruction of a schedule.
type StepKind uint8

// The instructions.
const (
	Copy   StepKind = iota // Dst = Srcs[0]
	Reduce                 // Dst = op over Srcs, in their order, accumulated in float32 for 16-bit types and rounded once; Dst may be one of Srcs
	Signal                 // set this rank's signal Signal
	Wait                   // wait until rank Rank has set its signal Signal for the tile Lag tiles ago
)

func (k StepKind) String() string {
	if k > Wait {
		return fmt.Sprintf("StepKind(%d)", uint8(k))
	}
	return [...]string{"copy", "reduce", "signal", "wait"}[k]
}

// AllChunks as a step's Chunk is the whole tile.
const AllChunks = -1

// Step is one instruction.
type Step struct {
	Kind  StepKind
	Dst   Place   // Copy and Reduce
	Srcs  []Place // Copy: one; Reduce: one or more
	Chunk int     // Copy and Reduce: which part of the tile, or AllChunks

	// Final marks the copy or reduce after which the elements hold every rank's contribution: avg divides there.
	// An element passes exactly one final step.
	Final bool

	Rank   int // Wait
	Signal int // Signal and Wait
	Lag    int // Wait: 0 for the same tile
}

// Where is a kind of place.
type Where uint8

// The places.
const (
	In      Where = iota // the caller's source buffer; read only
	Out                  // the caller's destination buffer
	Slot                 // a slot of a rank
	PeerIn               // the source buffer of a rank, in registered memory; read only
	PeerOut              // the destination buffer of a rank, in registered memory; read only
)

// Place is where a step reads or writes: the tile's part of a buffer.
type Place struct {
	Where Where
	Rank  int // Slot, PeerIn, PeerOut: its owner
	Slot  int // Slot: which of the owner's slots
}

// Limits of a schedule, so that a plugin cannot make a rank allocate without bound.
const (
	MaxTileBytes = 1 << 30
	MaxBuffers   = 8
	MaxSlots     = 8
	MaxSignals   = 64
	MaxWorld     = 256
	MaxSteps     = 1 << 16 // of one rank's program
	MaxAllSteps  = 1 << 20 // of all programs
	MaxSources   = 1 << 22 // of all steps
	MaxShared    = 16 << 30
)

// Kind is ScheduleKind.
func (*Schedule) Kind() Kind { return ScheduleKind }

// The layout of the memory that the ranks of a schedule share: all signals, then all slots. A signal has 128 bytes to
// itself, since processors fetch cache lines in pairs.
const signalStride = 128

// SignalOffset is where a rank's signal lies in the shared memory, in bytes. It is a uint64: the call's tag in the upper
// half, the tile's number in the lower.
func (s *Schedule) SignalOffset(rank, signal int) int64 {
	return int64(rank*s.Signals+signal) * signalStride
}

// SlotOffset is where one copy of a rank's slot lies in the shared memory, in bytes.
func (s *Schedule) SlotOffset(rank, slot, buffer int) int64 {
	const page = 4096
	base := (s.SignalOffset(len(s.Programs), 0) + page - 1) / page * page
	return base + int64((rank*s.Slots+slot)*s.Buffers+buffer)*s.TileBytes
}

// SharedBytes is the size of the shared memory.
func (s *Schedule) SharedBytes() int64 { return s.SlotOffset(len(s.Programs), 0, 0) }

// TrialBytes is how long each of the two buffers is that a rank gets to try a direct schedule with.
const TrialBytes = 512 << 10

// MemoryBytes is the size of the shared memory with, for a direct schedule, the buffers of all ranks to try it with behind
// it: those of rank 0, those of rank 1, and so on.
func (s *Schedule) MemoryBytes() int64 {
	if s.Direct() {
		return s.SharedBytes() + int64(len(s.Programs))*2*TrialBytes
	}
	return s.SharedBytes()
}

// Validate checks shape and bounds.
func (s *Schedule) Validate(worldSize int) error {
	for _, b := range []struct {
		what           string
		v, least, most int64
	}{
		{"ranks", int64(worldSize), 1, MaxWorld},
		{"bytes in a tile", s.TileBytes, 64, MaxTileBytes},
		{"buffers", int64(s.Buffers), 1, MaxBuffers},
		{"slots", int64(s.Slots), 0, MaxSlots},
		{"signals", int64(s.Signals), 0, MaxSignals},
		{"chunks", int64(s.Chunks), 1, MaxWorld},
	} {
		if b.v < b.least || b.v > b.most {
			return fmt.Errorf("schedule: %d %s, want %d to %d", b.v, b.what, b.least, b.most)
		}
	}
	if s.TileBytes%64 != 0 {
		return fmt.Errorf("schedule: tile of %d bytes is not a multiple of 64", s.TileBytes)
	}
	if len(s.Programs) != worldSize {
		return fmt.Errorf("schedule: %d programs for %d ranks", len(s.Programs), worldSize)
	}
	if n := s.SharedBytes(); n > MaxShared {
		return fmt.Errorf("schedule: %d bytes of shared slots, at most %d", n, int64(MaxShared))
	}
	steps, sources := 0, 0
	for rank, program := range s.Programs {
		if len(program) > MaxSteps {
			return fmt.Errorf("schedule: rank %d: %d steps, at most %d", rank, len(program), MaxSteps)
		}
		if steps += len(program); steps > MaxAllSteps {
			return fmt.Errorf("schedule: more than %d steps of all ranks", MaxAllSteps)
		}
		for i, step := range program {
			if err := s.validateStep(step); err != nil {
				return fmt.Errorf("schedule: rank %d, step %d (%s): %w", rank, i, step.Kind, err)
			}
			if sources += len(step.Srcs); sources > MaxSources {
				return fmt.Errorf("schedule: more than %d sources of all steps", MaxSources)
			}
		}
	}
	return nil
}

func (s *Schedule) validateStep(t Step) error {
	switch t.Kind {
	case Signal:
		return within("signal", t.Signal, s.Signals)
	case Wait:
		if t.Lag < 0 || t.Lag > MaxBuffers {
			return fmt.Errorf("lag of %d tiles, want 0 to %d", t.Lag, MaxBuffers)
		}
		if err := within("rank", t.Rank, len(s.Programs)); err != nil {
			return err
		}
		return within("signal", t.Signal, s.Signals)
	case Copy, Reduce:
	default:
		return fmt.Errorf("unknown instruction")
	}
	if n := len(t.Srcs); t.Kind == Copy && n != 1 || t.Kind == Reduce && (n < 1 || n > MaxWorld) {
		return fmt.Errorf("%d sources", n)
	}
	if t.Chunk != AllChunks {
		if err := within("chunk", t.Chunk, s.Chunks); err != nil {
			return err
		}
	}
	switch t.Dst.Where {
	case In:
		return fmt.Errorf("writes to the source buffer")
	case PeerIn, PeerOut:
		return fmt.Errorf("writes to the buffer of a rank's caller, which may only be read")
	}
	for _, p := range append([]Place{t.Dst}, t.Srcs...) {
		if err := s.validatePlace(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schedule) validatePlace(p Place) error {
	switch p.Where {
	case In, Out:
		return nil
	case PeerIn, PeerOut:
		return within("buffer owner", p.Rank, len(s.Programs))
	case Slot:
		if err := within("slot owner", p.Rank, len(s.Programs)); err != nil {
			return err
		}
		return within("slot", p.Slot, s.Slots)
	}
	return fmt.Errorf("unknown place %d", p.Where)
}

// Direct reports whether the schedule reads the buffers of other ranks' callers, so that it needs registered memory.
func (s *Schedule) Direct() bool {
	return slices.ContainsFunc(s.Programs, func(program []Step) bool {
		return slices.ContainsFunc(program, func(t Step) bool {
			return slices.ContainsFunc(t.Srcs, func(p Place) bool { return p.Where == PeerIn || p.Where == PeerOut })
		})
	})
}

func within(what string, v, n int) error {
	if v < 0 || v >= n {
		return fmt.Errorf("%s %d, want 0 to %d", what, v, n-1)
	}
	return nil
}
