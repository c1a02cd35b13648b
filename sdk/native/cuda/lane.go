package cuda

import (
	"runtime"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

// Lane makes one C call at a time on a stream of a context: from any thread, whose own context it brings back, and only
// if the stream is not being captured. It allocates nothing. It serves one caller at a time.
type Lane struct {
	before uintptr     // of the caller's thread
	status uintptr     // of the stream, in the lower half
	steps  dl.Sequence // in the order of the constants below

	api     *API
	context Context
	restore *dl.Sequence // of one step that sets the thread's context
}

const (
	askContext = iota
	askCapture
	target
	laneSteps
)

// NewLane is a lane into a context.
func (a *API) NewLane(c Context) *Lane {
	l := &Lane{api: a, context: c, steps: *dl.NewSequence(laneSteps), restore: dl.NewSequence(1)}
	ask := l.steps.Step(askContext)
	ask.Function, ask.Check, ask.Want = a.address[ctxGetCurrent], &l.before, uintptr(c)
	ask.Args[0] = uintptr(unsafe.Pointer(&l.before))
	ask = l.steps.Step(askCapture)
	ask.Function, ask.Check, ask.Want = a.address[streamIsCapturing], &l.status, uintptr(NotCapturing)
	ask.Args[1] = uintptr(unsafe.Pointer(&l.status))
	l.restore.Step(0).Function = a.address[ctxSetCurrent]
	return l
}

// Target is the call that Run makes, to be filled; it must return 0 for success.
func (l *Lane) Target() *dl.Step { return l.steps.Step(target) }

// Run asks whether the stream is being captured and makes the call if it is not. result is what the call returned; it
// means nothing when the status is another than NotCapturing or there is an error, which is the driver's.
func (l *Lane) Run(s Stream) (status CaptureStatus, result int, err error) {
	l.steps.Step(askCapture).Args[0] = uintptr(s)
	if stopped := l.Again(); stopped != 0 {
		return l.Stopped(stopped)
	}
	return NotCapturing, 0, nil
}

// Again is Run on the stream of the last one, with the target as it is. Unless it returns 0, which is that all went well,
// Stopped is to be called with what it returns, on the same lane with nothing in between.
func (l *Lane) Again() (stopped int) { return l.steps.Run(askContext) - laneSteps }

// Stopped returns what Run would have.
func (l *Lane) Stopped(stopped int) (status CaptureStatus, result int, err error) {
	stopped += laneSteps
	if stopped == askContext && l.steps.Step(askContext).Result == success { // the thread has another context
		stopped, err = l.elsewhere()
		if err != nil {
			return 0, 0, err
		}
	}
	switch stopped {
	case laneSteps:
		return NotCapturing, 0, nil
	case target:
		return NotCapturing, int(l.Target().Result), nil
	}
	if code := l.steps.Step(stopped).Result; code != success {
		return 0, 0, l.api.check(symbols[[]function{ctxGetCurrent, streamIsCapturing}[stopped]].name, code)
	}
	return CaptureStatus(int32(l.status)), 0, nil
}

// elsewhere is Run on a thread with another context, or none.
func (l *Lane) elsewhere() (stopped int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := l.set(l.thread()); err != nil {
		return 0, err
	}
	stopped = l.steps.Run(askCapture)
	return stopped, l.set(l.before)
}

// thread asks for the context of the thread that the goroutine is locked to now, which is perhaps not the one asked
// before, and returns the lane's.
func (l *Lane) thread() uintptr {
	l.steps.Step(askContext).Want = ^uintptr(0) // never reached: stop there
	l.steps.Run(askContext)
	l.steps.Step(askContext).Want = uintptr(l.context)
	return uintptr(l.context)
}

func (l *Lane) set(context uintptr) error {
	l.restore.Step(0).Args[0] = context
	if l.restore.Run(0) == 0 {
		return l.api.check(symbols[ctxSetCurrent].name, l.restore.Step(0).Result)
	}
	return nil
}
