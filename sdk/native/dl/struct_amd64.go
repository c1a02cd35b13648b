package dl

import "github.com/ebitengine/purego"

// CallStruct calls a C function one of whose arguments is a struct of more than 16 bytes passed by value, given as its
// words, after the first before of the others, of which there are at most six. The System V ABI puts such a struct on
// the stack and leaves the registers to the others.
//
//go:uintptrescapes
func CallStruct(function uintptr, words []uint64, before int, args ...uintptr) uintptr {
	const registers = 6
	all := make([]uintptr, registers, registers+len(words))
	copy(all, args)
	for _, w := range words {
		all = append(all, uintptr(w))
	}
	r, _, _ := purego.SyscallN(function, all...)
	return r
}
