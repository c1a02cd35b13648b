package cuda

import (
	"runtime"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

// Dispatch is a kernel and how to launch it.
type Dispatch struct {
	Function    Function
	Grid, Block int // blocks, threads per block
	SharedBytes int
	Args        *unsafe.Pointer // pointers to the arguments, which the driver copies before it returns; all on the heap
}

func (d *Dispatch) fill(step *dl.Step, s Stream) {
	step.Args = [...]uintptr{
		uintptr(d.Function), uintptr(d.Grid), 1, 1, uintptr(d.Block), 1, 1, uintptr(d.SharedBytes), uintptr(s), uintptr(unsafe.Pointer(d.Args)), 0, 0,
	}
}

// LaunchKernel launches a kernel in stream order, or records it where the stream is being captured.
func (a *API) LaunchKernel(d *Dispatch, s Stream) error {
	return a.call(launchKernel, uintptr(d.Function), uintptr(d.Grid), 1, 1, uintptr(d.Block), 1, 1, uintptr(d.SharedBytes), uintptr(s),
		uintptr(unsafe.Pointer(d.Args)), 0)
}

// LaunchLane launches kernels one after the other, also on different streams: each launch is followed by an event, for which
// one on another stream waits. It is a Lane.
type LaunchLane struct {
	plain *Lane // launch, record
	after *Lane // wait, launch, record
}

// NewLaunchLane is a lane into a context. The event is one that nobody else records.
func (a *API) NewLaunchLane(c Context, e Event) *LaunchLane {
	l := &LaunchLane{plain: a.newLane(c, 2), after: a.newLane(c, 3)}
	wait := l.after.steps.Step(target)
	wait.Function, wait.Args[1] = a.address[streamWaitEvent], uintptr(e)
	for first, lane := range []*Lane{l.plain, l.after} {
		lane.steps.Step(target + first).Function = a.address[launchKernel]
		record := lane.steps.Step(target + first + 1)
		record.Function, record.Args[0] = a.address[eventRecord], uintptr(e)
	}
	return l
}

// Launch launches a kernel, after the last one if wait is set, unless the stream is being captured.
func (l *LaunchLane) Launch(d *Dispatch, s Stream, wait bool) (CaptureStatus, error) {
	lane, first := l.plain, 0
	if wait {
		lane, first = l.after, 1
		lane.steps.Step(target).Args[0] = uintptr(s)
	}
	d.fill(lane.steps.Step(target+first), s)
	lane.steps.Step(target + first + 1).Args[1] = uintptr(s)
	lane.steps.Step(askCapture).Args[0] = uintptr(s)
	stopped := lane.Again()
	runtime.KeepAlive(d)
	if stopped == 0 {
		return NotCapturing, nil
	}
	status, at, err := lane.stopped(stopped)
	if err != nil || status != NotCapturing || at == lane.targets {
		return status, err
	}
	called := [...]function{streamWaitEvent, launchKernel, eventRecord}[at+1-first]
	return status, lane.api.check(symbols[called].name, lane.steps.Step(target+at).Result)
}
