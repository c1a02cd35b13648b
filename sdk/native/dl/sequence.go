package dl

// maxArgs is how many integer arguments a call of a Sequence may have.
const maxArgs = 12

// Step is one C call of a Sequence. The layout is known to the assembly.
//
// A step is two cache lines, one if it has a check: a library that was called in between has emptied the first-level
// caches, so a sequence costs what it touches.
type Step struct {
	Function uintptr
	Result   int32 // what it returned
	last     uint32

	// Check, if set, is a word that the function fills, all of it or its lower half, the other half being 0. The sequence
	// goes on only if it is Want. The function has at most four arguments then.
	Check *uintptr
	Want  uintptr

	Args [maxArgs]uintptr // those that the function does not have are ignored
}

// Sequence is C calls made one after the other as one: Go hands the thread over once, which costs some 40 ns on amd64,
// and nothing is allocated. It stops after the first call whose result is not zero, which is success to CUDA and NCCL, or
// whose check fails. It serves one caller at a time.
//
// Memory that an argument points to must be on the heap and reachable from elsewhere, as a field of the owner of the
// sequence is: the arguments are numbers to the garbage collector.
type Sequence struct {
	runner uintptr // the assembly's address, here so that it is in the same cache line
	steps  []Step
}

// NewSequence is a sequence of n empty steps, of which there is at least one.
func NewSequence(n int) *Sequence {
	s := &Sequence{runner: sequenceAddress, steps: make([]Step, n)}
	s.steps[n-1].last = 1
	return s
}

// Step is step i, to be filled.
func (s *Sequence) Step(i int) *Step { return &s.steps[i] }

// Run makes the calls from step first on, and returns the number of the step that stopped it; as many as there are steps
// if none did.
func (s *Sequence) Run(first int) int { return first + run(s.runner, &s.steps[first]) }
