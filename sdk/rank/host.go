package rank

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// AllReduceHost is AllReduce of count elements of host memory given by address, for memory that is not Go's, as that of a C
// or Python program.
//
// Memory that is not there, or may not be written, is an error once a call meets it. That is the end of the group, on every
// rank: the peers have made the call, and what they were to get of this rank's part is lost.
func AllReduceHost(g *Group, dst, src uintptr, count int64, dataType collective.DataType, op collective.Op) (err error) {
	if why := checkHost(dst, src, count, dataType); why != nil {
		return g.reject(why)
	}
	faults := debug.SetPanicOnFault(true) // of this goroutine
	defer func() {
		debug.SetPanicOnFault(faults)
		if p := recover(); p != nil {
			err = g.panicked(p)
		}
	}()
	return g.call(collective.Class{DataType: dataType, Op: op}, address(dst), address(src), count*int64(dataType.Size()))
}

// address is memory that is not Go's.
func address(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// firstPage is where no memory is. Go ends the process if it finds a pointer to there.
const firstPage = 4096

// checkHost finds what the addresses alone show to be wrong with a call.
func checkHost(dst, src uintptr, count int64, dataType collective.DataType) error {
	size := int64(dataType.Size())
	switch {
	case size == 0:
		return fmt.Errorf("unknown data type %s", dataType)
	case min(dst, src) < firstPage:
		return fmt.Errorf("a buffer is at address %d", min(dst, src))
	case (dst|src)%uintptr(size) != 0:
		return fmt.Errorf("a buffer does not begin at a multiple of %d bytes, the size of %s", size, dataType)
	}
	return checkCount(dst, src, count, size)
}

// checkCount refuses counts that no memory has: the number of bytes would wrap around.
func checkCount(dst, src uintptr, count, size int64) error {
	if count <= 0 || count > math.MaxInt64/size || uintptr(count*size) > ^max(dst, src) {
		return fmt.Errorf("%d elements", count)
	}
	return nil
}

// panicked ends the group whose call a memory fault has ended, or a fault of Weir's own.
func (g *Group) panicked(p any) error {
	defer g.exit()
	why := fmt.Sprintf("a fault of Weir: %v", p)
	var fault interface{ Addr() uintptr }
	switch e, ok := p.(error); {
	case !ok:
	case errors.As(e, &fault) && fault.Addr() != 0: // the processor does not say where, if it is no address at all
		why = fmt.Sprintf("there is no memory at %#x that the call may use", fault.Addr())
	case strings.Contains(e.Error(), "invalid memory address"):
		why = "there is no memory at an address that the call was given"
	}
	return g.broken(g.calls, fmt.Errorf("rank %d: all-reduce %d: %s", g.rank, g.calls, why))
}
