// Package workerv1 is the memory that ranks share with a worker, a plugin that does all-reduces in its own process, and how the worker gets it.
package workerv1

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/plan"
)

// The layout, version 1. All numbers are in the machine's own byte order. docs/worker-abi.md describes it for every
// language.
//
// Two files are shared. In the control file, which everybody writes, are a header, a completion word for each slot, a
// record for each rank and slot, and the outputs of the slots. In the inputs file, which only ranks write, is a slot of
// each rank and number. An all-reduce is cut into tiles that fill a slot at most; tile t, counted from 1 over all calls,
// uses slot (t-1) modulo the number of slots.
const (
	Magic   = 0x4b525744 // "DWRK"
	Version = 1

	offMagic       = 0   // uint32
	offVersion     = 4   // uint32
	offWorld       = 8   // uint32: ranks
	offSlots       = 12  // uint32: slots of each rank, and output slots
	offSlotBytes   = 16  // uint64
	offCompletions = 24  // uint64: where in the control file the completion words are, a line each
	offRecords     = 32  // uint64: where the records are, a line each, those of rank 0 first
	offOutputs     = 40  // uint64: where the outputs are
	offDoorbell    = 64  // uint32, a futex: changed by the last rank that has filled its slot of a tile
	offAsleep      = 68  // uint32: not zero while the worker waits for the doorbell in the kernel
	offBell        = 128 // uint32, a futex: changed after every completion
	offWaiting     = 132 // uint32: ranks that wait for the bell in the kernel
	offStop        = 192 // uint32: not zero when the worker is no longer wanted

	line       = 64
	page       = 4096
	headerSize = 256

	maxWorld = 1 << 16
)

// A completion word holds the lower half of a tile's number in its lower half and in the upper what became of the tile. It begins as zero and
// moves by compare-and-swap from one tile of its slot to the next: to done, by the worker, or to failed, by the agent. A
// failed one stays.
const (
	Done   = 1
	Failed = 2
)

// Completion is the word of a tile that is done or failed.
func Completion(tile uint64, state uint32) uint64 { return uint64(state)<<32 | uint64(uint32(tile)) }

// Shape is the size of the shared memory.
type Shape struct {
	World, Slots int
	SlotBytes    int64
}

// ShapeOf is what a plan needs for a group of that many ranks.
func ShapeOf(w *plan.Worker, world int) Shape {
	return Shape{World: world, Slots: w.Slots, SlotBytes: w.SlotBytes}
}

func roundUp(n int64) int64 { return (n + page - 1) / page * page }

func (s Shape) completions() int64 { return headerSize }
func (s Shape) records() int64     { return s.completions() + line*int64(s.Slots) }
func (s Shape) outputs() int64     { return roundUp(s.records() + line*int64(s.World)*int64(s.Slots)) }

// ControlBytes is the size of the control file.
func (s Shape) ControlBytes() int64 { return roundUp(s.outputs() + int64(s.Slots)*s.SlotBytes) }

// InputBytes is the size of the inputs file.
func (s Shape) InputBytes() int64 {
	return roundUp(int64(s.World) * int64(s.Slots) * s.SlotBytes)
}

// validate refuses what no plan has, so that a header that somebody spoilt leads nowhere.
func (s Shape) validate() error {
	if s.World < 1 || s.World > maxWorld {
		return fmt.Errorf("%d ranks", s.World)
	}
	return (&plan.Worker{SlotBytes: s.SlotBytes, Slots: s.Slots}).Validate(s.World)
}

// Memory is the two files, mapped. What is written atomically may be used by all sides at once; slots as their owner's
// completion words allow.
type Memory struct {
	Shape
	control, inputs []byte
}

// NewMemory lays out zeroed memory of the shape's sizes.
func NewMemory(s Shape, control, inputs []byte) (*Memory, error) {
	m := &Memory{Shape: s, control: control, inputs: inputs}
	if err := m.fits(); err != nil {
		return nil, err
	}
	for off, v := range map[int]uint32{offVersion: Version, offWorld: uint32(s.World), offSlots: uint32(s.Slots)} {
		atomic.StoreUint32(m.word32(off), v)
	}
	for off, v := range map[int]int64{offSlotBytes: s.SlotBytes, offCompletions: s.completions(), offRecords: s.records(), offOutputs: s.outputs()} {
		atomic.StoreUint64(m.word64(int64(off)), uint64(v))
	}
	atomic.StoreUint32(m.word32(offMagic), Magic)
	return m, nil
}

// OpenMemory reads the header of memory that the agent laid out.
func OpenMemory(control, inputs []byte) (*Memory, error) {
	if len(control) < headerSize {
		return nil, fmt.Errorf("control memory of %d bytes", len(control))
	}
	m := &Memory{control: control, inputs: inputs}
	if got := atomic.LoadUint32(m.word32(offMagic)); got != Magic {
		return nil, fmt.Errorf("the memory is no worker's: it begins with %#x", got)
	}
	if got := atomic.LoadUint32(m.word32(offVersion)); got != Version {
		return nil, fmt.Errorf("version %d of the worker's memory, this is version %d: build plugin and engine from one release", got, Version)
	}
	m.Shape = Shape{
		World: int(atomic.LoadUint32(m.word32(offWorld))), Slots: int(atomic.LoadUint32(m.word32(offSlots))),
		SlotBytes: int64(atomic.LoadUint64(m.word64(offSlotBytes))),
	}
	return m, m.fits()
}

func (m *Memory) fits() error {
	if err := m.validate(); err != nil {
		return fmt.Errorf("worker's memory: %w", err)
	}
	if have, want := int64(len(m.control)), m.ControlBytes(); have < want {
		return fmt.Errorf("control memory of %d bytes, want %d", have, want)
	}
	if have, want := int64(len(m.inputs)), m.InputBytes(); have < want {
		return fmt.Errorf("inputs of %d bytes, want %d", have, want)
	}
	return nil
}

// Unmap gives the memory up; nothing of it may be used any more.
func (m *Memory) Unmap() {
	_ = unix.Munmap(m.control)
	_ = unix.Munmap(m.inputs)
}

func (m *Memory) word32(off int) *uint32   { return (*uint32)(unsafe.Pointer(&m.control[off])) }
func (m *Memory) word64(off int64) *uint64 { return (*uint64)(unsafe.Pointer(&m.control[off])) }

// Slot is the slot of a tile.
func (s Shape) Slot(tile uint64) int { return int((tile - 1) % uint64(s.Slots)) }

// Completion is the completion word of a slot.
func (m *Memory) Completion(slot int) *uint64 {
	return m.word64(m.completions() + line*int64(slot))
}

// Output is an output slot. The worker writes it between the last rank's record of a tile and the tile's completion; ranks
// read it until they fill their slot for the tile after the next ones.
func (m *Memory) Output(slot int) []byte {
	at := m.outputs() + int64(slot)*m.SlotBytes
	return m.control[at : at+m.SlotBytes : at+m.SlotBytes]
}

// Input is a rank's slot.
func (m *Memory) Input(rank, slot int) []byte {
	at := (int64(rank)*int64(m.Slots) + int64(slot)) * m.SlotBytes
	return m.inputs[at : at+m.SlotBytes : at+m.SlotBytes]
}
