// Package plan describes how an accepted backend is to be run: as a schedule, a kernel, a library or a worker.
package plan

import "fmt"

// Kind is one of the four kinds of plan.
type Kind string

// The kinds.
const (
	ScheduleKind Kind = "schedule"
	KernelKind   Kind = "kernel"
	LibraryKind  Kind = "library"
	WorkerKind   Kind = "worker"
)

// Kinds lists the kinds of plan.
func Kinds() []Kind { return []Kind{ScheduleKind, KernelKind, LibraryKind, WorkerKind} }

// Plan is one of *Schedule, *Kernel, *Library and *Worker. A plan is not changed once made.
type Plan interface {
	Kind() Kind
	// Validate says what makes the plan malformed or impossible for a group of that many ranks. It looks at shape and
	// bounds, not at what is computed.
	Validate(worldSize int) error
	sealed()
}

// Kernel is a GPU kernel that every rank launches on the caller's stream.
type Kernel struct {
	Image       []byte   // PTX text or a cubin
	Launches    []Launch // which function runs for which type and byte range
	BufferBytes int64    // size of one rank's symmetric buffer
	PollsAbort  bool     // the kernel leaves when the abort word is set
	MinDriver   string   // oldest CUDA driver that loads the image
}

// Launch is one row of a kernel's launch table.
type Launch struct {
	DataType    string // as core/collective names it
	Min, Max    int64  // byte counts, both included
	Function    string
	Grid, Block int // blocks, threads per block
	SharedBytes int // dynamic shared memory per block
}

// Library is a shared library with the NCCL ABI.
type Library struct {
	Path    string // absolute
	Version string // as the library reports it, such as "2.28.9"
	Variant string // "nccl", "nccl-symm", "rccl", "mscclpp"
}

// Worker says that the plugin does the work itself on shared slots.
type Worker struct {
	SlotBytes int64 // size of one rank's input slot, and of the output slot
	Slots     int   // slots per rank, used in turn
}

// Kind is KernelKind.
func (*Kernel) Kind() Kind { return KernelKind }

// Kind is LibraryKind.
func (*Library) Kind() Kind { return LibraryKind }

// Kind is WorkerKind.
func (*Worker) Kind() Kind { return WorkerKind }

func (*Schedule) sealed() {}
func (*Kernel) sealed()   {}
func (*Library) sealed()  {}
func (*Worker) sealed()   {}

const (
	maxImage  = 64 << 20
	maxBuffer = 1 << 40
)

// Validate checks sizes and the launch table.
func (k *Kernel) Validate(int) error {
	switch {
	case len(k.Image) == 0 || len(k.Image) > maxImage:
		return fmt.Errorf("kernel plan: image of %d bytes, want 1 to %d", len(k.Image), maxImage)
	case len(k.Launches) == 0:
		return fmt.Errorf("kernel plan: empty launch table")
	case k.BufferBytes < 0 || k.BufferBytes > maxBuffer:
		return fmt.Errorf("kernel plan: buffer of %d bytes", k.BufferBytes)
	}
	for i, l := range k.Launches {
		if l.Function == "" || l.Grid < 1 || l.Block < 1 || l.Block > 1024 || l.Min < 1 || l.Max < l.Min || l.SharedBytes < 0 {
			return fmt.Errorf("kernel plan: launch %d is impossible: %+v", i, l)
		}
	}
	return nil
}

// Validate checks that the path is absolute and the variant known.
func (l *Library) Validate(int) error {
	if l.Path == "" || l.Path[0] != '/' {
		return fmt.Errorf("library plan: path %q is not absolute", l.Path)
	}
	switch l.Variant {
	case "nccl", "nccl-symm", "rccl", "mscclpp":
		return nil
	}
	return fmt.Errorf("library plan: unknown variant %q", l.Variant)
}

// Validate checks sizes.
func (w *Worker) Validate(int) error {
	if w.SlotBytes < 64 || w.SlotBytes > MaxTileBytes || w.SlotBytes%64 != 0 || w.Slots < 1 || w.Slots > MaxSlots {
		return fmt.Errorf("worker plan: %d slots of %d bytes", w.Slots, w.SlotBytes)
	}
	return nil
}
