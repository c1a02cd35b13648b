package worker

import (
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/reduce"
)

// Reduce combines the tile's inputs in the order of the ranks, so that equal inputs give the same bits in every run. Sums
// and averages of 16-bit floating-point numbers are taken in float32 and rounded once.
func Reduce(t *Tile) error {
	srcs := make([]unsafe.Pointer, len(t.In))
	for rank, in := range t.In {
		srcs[rank] = unsafe.Pointer(unsafe.SliceData(in))
	}
	divide := 1
	if t.Op == collective.Avg {
		divide = len(t.In)
	}
	reduce.For(t.DataType, t.Op)(unsafe.Pointer(unsafe.SliceData(t.Out)), srcs, len(t.Out)/t.DataType.Size(), divide)
	return nil
}
