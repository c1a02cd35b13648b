//go:build !amd64

package dl

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

const sequenceAddress = 0

// run does what the assembly does elsewhere; it allocates.
func run(_ uintptr, s *Step) (done int) {
	for {
		r, _, _ := purego.SyscallN(s.Function, s.Args[:]...)
		s.Result = int32(r)
		if s.Result != 0 || s.Check != nil && *s.Check != s.Want {
			return done
		}
		done++
		if s.last != 0 {
			return done
		}
		s = (*Step)(unsafe.Add(unsafe.Pointer(s), unsafe.Sizeof(*s)))
	}
}
