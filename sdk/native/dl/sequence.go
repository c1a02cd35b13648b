package dl

import "unsafe"

// maxArgs is how many integer arguments a call of a Sequence may have.
const maxArgs = 12

// Step is one C call of a Sequence. The layout is known to the assembly.
type Step struct {
	Function uintptr
	Args     [maxArgs]uintptr // those that the function does not have are ignored
	Result   uintptr          // what it returned, as a C int

	// Check, if set, is a word that the function fills. The sequence goes on only if the bits of Mask in it are Want.
	Check      *uintptr
	Mask, Want uintptr
}

// Sequence is C calls made one after the other as one: Go hands the thread over once, which costs some 40 ns on amd64,
// and nothing is allocated. It stops after the first call whose result is not zero, which is success to CUDA and NCCL, or
// whose check fails. It serves one caller at a time.
//
// Memory that an argument points to must be on the heap and reachable from elsewhere, as a field of the owner of the
// sequence is: the arguments are numbers to the garbage collector.
type Sequence struct {
	args  sequenceArgs
	steps []Step
}

// sequenceArgs is what the assembly gets.
type sequenceArgs struct {
	next       *Step
	left, done uintptr
}

// NewSequence is a sequence of n empty steps.
func NewSequence(n int) *Sequence { return &Sequence{steps: make([]Step, n)} }

// Step is step i, to be filled.
func (s *Sequence) Step(i int) *Step { return &s.steps[i] }

// Run makes the calls from step first on, and returns the number of the step that stopped it; as many as there are steps
// if none did.
func (s *Sequence) Run(first int) int {
	s.args = sequenceArgs{next: &s.steps[first], left: uintptr(len(s.steps) - first)}
	run(unsafe.Pointer(&s.args))
	return first + int(s.args.done)
}
