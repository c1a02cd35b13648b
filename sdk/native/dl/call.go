package dl

import (
	"github.com/ebitengine/purego"
)

// Call calls a C function whose arguments are integers and pointers, at most 32, and returns its result. It neither
// reflects nor allocates; memory that a pointer argument names is moved to the heap by the compiler.
//
//go:uintptrescapes
func Call(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}
