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

// Library is a shared library with the NCCL ABI.
type Library struct {
	Path    string // absolute
	Version string // as the library reports it, such as "2.28.9"
	Variant string // "nccl", "nccl-symm", "rccl", "mscclpp"
}

const (
	maxPath    = 4096 // with the byte that ends it, as the kernel takes it
	maxVersion = 128
)

// Worker says that the plugin does the work itself on shared slots.
type Worker struct {
	SlotBytes int64 // size of one rank's input slot, and of the output slot
	Slots     int   // slots per rank, used in turn
}

// Kind is LibraryKind.
func (*Library) Kind() Kind { return LibraryKind }

// Kind is WorkerKind.
func (*Worker) Kind() Kind { return WorkerKind }

func (*Schedule) sealed() {}
func (*Kernel) sealed()   {}
func (*Library) sealed()  {}
func (*Worker) sealed()   {}

// Validate checks that the path is absolute and the variant known.
func (l *Library) Validate(int) error {
	if l.Path == "" || l.Path[0] != '/' {
		return fmt.Errorf("library plan: path %q is not absolute", l.Path)
	}
	if len(l.Path) >= maxPath || len(l.Version) > maxVersion {
		return fmt.Errorf("library plan: path of %d bytes, version of %d, at most %d and %d", len(l.Path), len(l.Version), maxPath-1, maxVersion)
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
