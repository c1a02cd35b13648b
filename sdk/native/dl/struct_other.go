//go:build !amd64

package dl

import (
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// CallStruct calls a C function one of whose arguments is a struct of more than 16 bytes passed by value, given as its
// words, after the first before of the others, of which there are at most six. The ABI of 64-bit Arm (and of RISC-V)
// passes a pointer to a copy.
//
//go:uintptrescapes
func CallStruct(function uintptr, words []uint64, before int, args ...uintptr) uintptr {
	copied := slices.Clone(words)
	all := slices.Insert(slices.Clone(args), before, uintptr(unsafe.Pointer(unsafe.SliceData(copied))))
	r, _, _ := purego.SyscallN(function, all...)
	return r
}
