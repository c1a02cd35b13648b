// Package reduce combines arrays element by element, with the vector instructions that the processor has.
package reduce

import (
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// Kernel combines n elements of every source, in the order of srcs, and stores them at dst; avg adds, and divides by
// divide where that is not 1. With one source it copies. There is at least one source; divide is at least 1 and matters
// to avg only. dst may be one of the sources; otherwise it overlaps none. Arrays begin at a multiple of an element's size.
//
// 16-bit types are accumulated in float32 over all sources and rounded once, to nearest, ties to even: a schedule that
// reduces in several steps rounds at each. Apart from the payload of a NaN the result does not depend on the processor.
// What min, max and avg do is said at collective.Op.
//
// A kernel allocates nothing. It cannot be preempted, not by the garbage collector either, so callers hand over tiles
// rather than buffers of many MiB.
type Kernel func(dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int)

// table has a kernel for every type and op.
type table [collective.NumDataTypes][collective.NumOps]Kernel

// variant is a set of kernels for one instruction set.
type variant struct {
	name          string
	kernels       table
	streams       table // as kernels, but past the caches where there is such a kernel
	copyPastCache func(dst, src unsafe.Pointer, bytes int)
}

// active is the best variant that this processor can run.
var active = variants()[0]

// plain is the variant that every processor can run.
func plain() variant {
	return variant{name: "generic", kernels: generic(), streams: generic(), copyPastCache: Copy}
}

// For is the kernel of a type and op, both of which are valid.
func For(dt collective.DataType, op collective.Op) Kernel { return active.kernels[dt][op] }

// Streaming is For with stores that go past the caches, where there is such a kernel: for a destination so large that it
// will have left the cache before anybody reads it. All its stores are visible to other cores before any store that the
// caller makes afterwards.
func Streaming(dt collective.DataType, op collective.Op) Kernel { return active.streams[dt][op] }

// InstructionSet names what the kernels use: "avx512", "avx2" or "generic".
func InstructionSet() string { return active.name }

// Copy copies bytes between two places that are the same or do not overlap.
func Copy(dst, src unsafe.Pointer, bytes int) {
	copy(unsafe.Slice((*byte)(dst), bytes), unsafe.Slice((*byte)(src), bytes))
}

// CopyStream is Copy with stores that go past the caches, as those of Streaming do.
func CopyStream(dst, src unsafe.Pointer, bytes int) { active.copyPastCache(dst, src, bytes) }
