package rank

import (
	"sync/atomic"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// repeat is the last call on device memory with all that was found out for it, so that one like it need not ask again. It
// lies together, at the beginning of the group: after a library's call nothing of it is in the first-level caches, so a
// call costs what it touches. All of it but dead is written while the group is busy.
type repeat struct {
	calls uint64 // begun, of any kind
	dead  atomic.Pointer[GroupError]

	// What it was given.
	dst, src uintptr
	count    int64
	stream   uintptr
	dataType collective.DataType
	op       collective.Op

	counter uint32        // of its entry
	library *exec.Library // that it was made with and that has made none since; nil: there is no such call
	part    *rankv1.Part
	what    rankv1.What
	bytes   uint64
}

// like reports whether a call is like the last one.
func (r *repeat) like(dst, src uintptr, count int64, dataType collective.DataType, op collective.Op, stream uintptr) bool {
	return dst == r.dst && src == r.src && count == r.count && stream == r.stream && dataType == r.dataType && op == r.op && r.library != nil
}

// forget has the next call find everything out.
func (r *repeat) forget() { r.library = nil }
