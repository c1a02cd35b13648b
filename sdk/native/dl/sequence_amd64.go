package dl

import (
	"unsafe"

	_ "github.com/ebitengine/purego" // starts what C calls need without cgo
)

// cgocall runs a function of the C ABI on the thread's own stack. The runtime keeps it for packages that link to it, as
// purego does.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(function uintptr, argument unsafe.Pointer) int32

// sequenceAddress is the address of the assembly function, which has the C ABI.
var sequenceAddress uintptr

// run makes the calls from a step on, and returns how many it made before the one that stopped it.
func run(runner uintptr, s *Step) int { return int(cgocall(runner, unsafe.Pointer(s))) }
