package cuda

import (
	"runtime"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

// Lane makes C calls on a stream of a context: from any thread, whose own context it brings back, and only if the stream is
// not being captured. It allocates nothing. It serves one caller at a time.
type Lane struct {
	api     *API
	context Context
	before  uintptr // of the caller's thread
	status  uintptr // of the stream, in the lower half

	steps   *dl.Sequence // in the order of the constants below
	targets int
	restore *dl.Sequence // of one step that sets the thread's context
}

const (
	askContext = iota
	askCapture
	target // and those after it
)

// NewLane is a lane of one call into a context.
func (a *API) NewLane(c Context) *Lane { return a.newLane(c, 1) }

func (a *API) newLane(c Context, targets int) *Lane {
	l := &Lane{api: a, context: c, steps: dl.NewSequence(target + targets), targets: targets, restore: dl.NewSequence(1)}
	*l.steps.Step(askContext) = dl.Step{Function: a.address[ctxGetCurrent], Check: &l.before, Mask: ^uintptr(0), Want: uintptr(c)}
	l.steps.Step(askContext).Args[0] = uintptr(unsafe.Pointer(&l.before))
	*l.steps.Step(askCapture) = dl.Step{Function: a.address[streamIsCapturing], Check: &l.status, Mask: 1<<32 - 1}
	l.steps.Step(askCapture).Args[1] = uintptr(unsafe.Pointer(&l.status))
	l.restore.Step(0).Function = a.address[ctxSetCurrent]
	return l
}

// Target is the call that Run makes, to be filled; it must return 0 for success.
func (l *Lane) Target() *dl.Step { return l.steps.Step(target) }

// Run asks whether the stream is being captured and makes the call if it is not. result is what the call returned; it
// means nothing when the status is another than NotCapturing or there is an error, which is the driver's.
func (l *Lane) Run(s Stream) (status CaptureStatus, result int, err error) {
	status, stopped, err := l.run(s)
	if stopped < l.targets && err == nil && status == NotCapturing {
		result = int(int32(l.steps.Step(target + stopped).Result))
	}
	return status, result, err
}

// run is Run for several calls; stopped is the number of the one that failed, or how many there are.
func (l *Lane) run(s Stream) (status CaptureStatus, stopped int, err error) {
	l.steps.Step(askCapture).Args[0] = uintptr(s)
	stopped = l.steps.Run(askContext)
	if stopped == askContext && l.steps.Step(askContext).Result == success { // the thread has another context
		stopped, err = l.elsewhere()
		if err != nil {
			return 0, 0, err
		}
	}
	if stopped >= target {
		return NotCapturing, stopped - target, nil
	}
	if code := l.steps.Step(stopped).Result; code != success {
		return 0, 0, l.api.check(symbols[[]function{ctxGetCurrent, streamIsCapturing}[stopped]].name, int32(code))
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
		return l.api.check(symbols[ctxSetCurrent].name, int32(l.restore.Step(0).Result))
	}
	return nil
}
