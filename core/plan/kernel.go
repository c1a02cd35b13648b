package plan

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
)

// Kernel is a GPU kernel that every rank launches on the caller's stream. What it is passed and must do is in
// sdk/kernel/weir_kernel.h.
type Kernel struct {
	Image       []byte       // PTX text or a cubin
	Launches    []Launch     // which function runs for which type and byte range
	BufferBytes int64        // size of one rank's symmetric buffer, which every rank can reach
	Buffer      BufferMemory // where it is
	PollsAbort  bool         // the kernel leaves when the abort word is set
	MinDriver   string       // oldest CUDA version whose driver loads the image, such as "11.4"; "" for any
}

// BufferMemory is where the ranks' symmetric buffers are.
type BufferMemory string

// The places. Buffers in device memory are reached peer to peer; those in page-locked host memory by any GPU.
const (
	DeviceBuffer BufferMemory = "device"
	HostBuffer   BufferMemory = "host"
)

// Launch is one row of a kernel's launch table. A byte count that no row of its type has is not served.
type Launch struct {
	DataType    string // as core/collective names it
	Min, Max    int64  // byte counts, both included
	Function    string
	Grid, Block int // blocks, threads per block
	SharedBytes int // dynamic shared memory per block

	// Arguments are what the function takes, in order. None is the usual: one weir_call, by value. Functions of compilers
	// that cannot take a struct name its fields instead.
	Arguments []Argument
}

// Argument is one argument of a kernel function. Numbers are 32 bits wide but for the count's 64, the others pointers.
type Argument string

// The arguments.
const (
	ArgIn      Argument = "in"
	ArgOut     Argument = "out"
	ArgCount   Argument = "count" // elements
	ArgRank    Argument = "rank"
	ArgWorld   Argument = "world"
	ArgHash    Argument = "hash"    // of the call: 1 to 4095
	ArgID      Argument = "id"      // of the launch or graph node, not 0
	ArgBuffers Argument = "buffers" // to an array in device memory: every rank's buffer, by rank
	ArgControl Argument = "control" // to the rank's weir_control
	ArgStatus  Argument = "status"  // to the rank's weir_status
	ArgNull    Argument = "null"    // the null pointer, for what a compiler adds of its own
)

// ArgumentNames are all there are.
func ArgumentNames() []Argument {
	return []Argument{ArgIn, ArgOut, ArgCount, ArgRank, ArgWorld, ArgHash, ArgID, ArgBuffers, ArgControl, ArgStatus, ArgNull}
}

// MaxKernelRanks is the largest group that a kernel plan serves: weir_call has room for as many buffers.
const MaxKernelRanks = 16

const (
	maxImage     = 64 << 20
	maxBuffer    = 1 << 40
	maxLaunches  = 1024
	maxArguments = 32
	maxGrid      = 1 << 16
	maxFunction  = 4096
)

// Kind is KernelKind.
func (*Kernel) Kind() Kind { return KernelKind }

// hostPage is what each rank's buffer in host memory is a multiple of.
const hostPage = 4096

// HostStride is how many bytes of shared host memory there are for each rank: 0 if the buffers are in device memory.
func (k *Kernel) HostStride() int64 {
	if k.Buffer != HostBuffer {
		return 0
	}
	return (k.BufferBytes + hostPage - 1) / hostPage * hostPage
}

// Key tells plans apart: all classes of a group whose plans have the same key share buffers and the sequence.
func (k *Kernel) Key() string {
	rest := *k
	rest.Image = nil
	return fmt.Sprintf("%x %#v", sha256.Sum256(k.Image), rest)
}

// Validate checks sizes and the launch table.
func (k *Kernel) Validate(worldSize int) error {
	switch {
	case worldSize > MaxKernelRanks:
		return fmt.Errorf("kernel plan: %d ranks, at most %d", worldSize, MaxKernelRanks)
	case len(k.Image) == 0 || len(k.Image) > maxImage:
		return fmt.Errorf("kernel plan: image of %d bytes, want 1 to %d", len(k.Image), maxImage)
	case len(k.Launches) == 0 || len(k.Launches) > maxLaunches:
		return fmt.Errorf("kernel plan: launch table of %d rows, want 1 to %d", len(k.Launches), maxLaunches)
	case k.BufferBytes < 0 || k.BufferBytes > maxBuffer:
		return fmt.Errorf("kernel plan: buffer of %d bytes", k.BufferBytes)
	case len(k.MinDriver) > maxVersion:
		return fmt.Errorf("kernel plan: oldest driver of %d bytes, at most %d", len(k.MinDriver), maxVersion)
	case k.Buffer != DeviceBuffer && k.Buffer != HostBuffer:
		return fmt.Errorf("kernel plan: unknown buffer memory %q, want %q or %q", k.Buffer, DeviceBuffer, HostBuffer)
	}
	for i, l := range k.Launches {
		if err := l.validate(); err != nil {
			return fmt.Errorf("kernel plan: launch %d: %w", i, err)
		}
		for j, other := range k.Launches[:i] {
			if other.DataType == l.DataType && other.Min <= l.Max && l.Min <= other.Max {
				return fmt.Errorf("kernel plan: launches %d and %d both serve %s of %d bytes", j, i, l.DataType, max(l.Min, other.Min))
			}
		}
	}
	return nil
}

func (l Launch) validate() error {
	var t collective.DataType
	switch {
	case t.UnmarshalText([]byte(l.DataType)) != nil:
		return fmt.Errorf("unknown data type %q", l.DataType)
	case l.Function == "" || strings.ContainsRune(l.Function, 0):
		return fmt.Errorf("bad function name %q", l.Function)
	case len(l.Function) > maxFunction:
		return fmt.Errorf("function name of %d bytes, at most %d", len(l.Function), maxFunction)
	case l.Min < 1 || l.Max < l.Min:
		return fmt.Errorf("impossible byte range %d to %d", l.Min, l.Max)
	case l.Grid < 1 || l.Grid > maxGrid || l.Block < 1 || l.Block > 1024 || l.SharedBytes < 0 || l.SharedBytes > 1<<20:
		return fmt.Errorf("impossible shape: %d blocks of %d threads with %d bytes of shared memory", l.Grid, l.Block, l.SharedBytes)
	case len(l.Arguments) > maxArguments:
		return fmt.Errorf("%d arguments, at most %d", len(l.Arguments), maxArguments)
	}
	if unknown, found := lo.Find(l.Arguments, func(a Argument) bool { return !slices.Contains(ArgumentNames(), a) }); found {
		return fmt.Errorf("unknown argument %q", unknown)
	}
	return nil
}
