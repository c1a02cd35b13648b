package exec

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// DeviceCall is one all-reduce of device memory as a rank makes it.
type DeviceCall struct {
	Class    collective.Class // whether it is captured is found out
	Dst, Src uintptr          // of Bytes bytes each
	Bytes    int64
	Stream   cuda.Stream
}

// Library is one rank's communicator of a library with the NCCL ABI, which all the group's calls that the library serves
// share. It takes one call at a time, which its group sees to.
type Library struct {
	lane *cuda.Lane  // beside over: a call like the last one needs no more
	over atomic.Bool // no call may begin any more; read by calls after the group is busy, written before busy is asked

	api    *nccl.API
	device *device.Device
	rank   int
	world  int

	symmetric bool // windows of symmetric memory are wanted
	comm      nccl.Comm

	busy   func() bool // the group is in a call, perhaps inside the library
	ready  atomic.Bool // comm is there
	pins   pins
	ending sync.Once
	ended  chan struct{} // closed when the library has given the communicator up
}

// ErrOver is the error of a call on a communicator that was aborted or closed.
var ErrOver = errors.New("the communicator has been given up")

// Run makes a call on the caller's stream, from any thread, whose own context it leaves as it was. When the stream is
// being captured it does nothing and says so: make the call with RunCaptured then. It takes no lock and allocates
// nothing.
func (l *Library) Run(c DeviceCall) (captured bool, err error) {
	if l.over.Load() {
		return false, ErrOver
	}
	k := c.Class
	l.api.FillAllReduce(l.lane.Target(), c.Src, c.Dst, c.Bytes/int64(k.DataType.Size()), nccl.TypeOf(k.DataType), nccl.OpOf(k.Op), l.comm, uintptr(c.Stream))
	return l.ran(l.lane.Run(c.Stream))
}

// Again is Run with the call of the last one.
func (l *Library) Again() (captured bool, err error) {
	if l.over.Load() {
		return false, ErrOver
	}
	if stopped := l.lane.Again(); stopped != 0 {
		return l.ran(l.lane.Stopped(stopped))
	}
	return false, nil
}

func (l *Library) ran(status cuda.CaptureStatus, result int, err error) (captured bool, _ error) {
	switch {
	case err != nil:
		return false, err
	case status != cuda.NotCapturing:
		return true, nil
	case result != 0:
		return false, l.api.AllReduceFailed(result)
	}
	return false, nil
}

// RunCaptured makes a call that becomes part of the graph that the stream is captured into. The communicator stays until
// that graph, and all that was instantiated from it, are destroyed.
func (l *Library) RunCaptured(c DeviceCall) error {
	if l.over.Load() {
		return ErrOver
	}
	k := c.Class
	return l.device.Do(func() error {
		capture, err := l.device.API.CaptureInfo(c.Stream)
		switch {
		case err != nil:
			return err
		case capture.Status != cuda.Capturing:
			return errors.New("the capture of the stream was invalidated by an earlier call")
		}
		if err := l.pins.pin(l.device.API, capture); err != nil {
			return fmt.Errorf("tie the plan to the graph: %w", err)
		}
		return l.api.AllReduce(c.Src, c.Dst, c.Bytes/int64(k.DataType.Size()), nccl.TypeOf(k.DataType), nccl.OpOf(k.Op), l.comm, uintptr(c.Stream))
	})
}

// AsyncError is what went wrong after a call had returned; nil for nothing. It may be called at any time.
func (l *Library) AsyncError() error {
	if l.over.Load() || !l.ready.Load() {
		return nil
	}
	return l.api.AsyncError(l.comm)
}

// Path and Version say which library it is.
func (l *Library) Path() string { return l.api.Path() }

// leavePatience is how long Abort waits for a call that is inside the library.
const leavePatience = time.Second

// Abort ends the communicator at once: what runs on the device leaves, results are undefined, later calls fail. It returns
// without waiting for the library, which may take as long as graphs with its calls live.
func (l *Library) Abort() { l.end(l.api.Abort) }

// end gives the communicator up in the background, once.
func (l *Library) end(how func(nccl.Comm) error) {
	l.over.Store(true)
	l.ending.Do(func() {
		go func() {
			defer close(l.ended)
			// A call inside the library at the end of the wait is one that hangs; aborting is what may free it.
			for end := time.Now().Add(leavePatience); l.busy() && time.Now().Before(end); {
				time.Sleep(100 * time.Microsecond)
			}
			if !l.ready.Load() {
				return // the communicator never came about
			}
			_ = l.device.Do(func() error { return how(l.comm) }) // there is nobody to tell, and nothing left to do
		}()
	})
}

// Close gives the communicator up after what is outstanding, and waits for that at most as long as said. While graphs
// hold calls of it, it stays until they are destroyed.
func (l *Library) Close(patience time.Duration) error {
	l.end(func(c nccl.Comm) error {
		l.pins.wait()
		return errors.Join(l.api.Finalize(c), l.api.Destroy(c))
	})
	if l.pins.live() > 0 {
		return nil // with the graphs
	}
	select {
	case <-l.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s did not give its communicator up within %s", l.api.Path(), patience)
	}
}
