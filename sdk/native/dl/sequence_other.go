//go:build !amd64

package dl

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// run does what the assembly does elsewhere; it allocates.
func run(args unsafe.Pointer) {
	a := (*sequenceArgs)(args)
	for i, s := range unsafe.Slice(a.next, a.left) {
		r, _, _ := purego.SyscallN(s.Function, s.Args[:]...)
		result := uintptr(int32(r))
		unsafe.Slice(a.next, a.left)[i].Result = result
		if result != 0 || s.Check != nil && *s.Check&s.Mask != s.Want {
			return
		}
		a.done++
	}
}
