package exec

import (
	"errors"
	"slices"
	"sync"

	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// Order has the calls of a group's kernel plans run one after the other, whatever streams they are on: an eager call after
// the last eager one by an event, a captured call after the last one of the same capture by an edge of the graph. Nothing
// here orders a graph against eager calls or another graph; the kernels tell when those meet.
type Order struct {
	lane   *cuda.LaunchLane
	stream cuda.Stream // of the last eager call
	some   bool        // there was one

	captured uint64      // id of the last capture
	at       cuda.Stream // in which its last call was made
	node     cuda.Node   // that call

	mu     sync.Mutex // of what follows
	device *device.Device
	event  cuda.Event // of the last eager call's end
	users  int
}

// NewOrder is the order of a group's calls on a device.
func NewOrder(d *device.Device) *Order { return &Order{device: d} }

// use makes the event with the first user.
func (o *Order) use() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == 0 {
		e, err := o.device.API.NewEvent(false)
		if err != nil {
			return err
		}
		o.event, o.lane, o.some = e, o.device.API.NewLaunchLane(o.device.Context, e), false
	}
	o.users++
	return nil
}

func (o *Order) unuse() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users--; o.users > 0 {
		return nil
	}
	return o.device.API.DestroyEvent(o.event)
}

// perThread is the handle that means another stream in every thread.
const perThread cuda.Stream = 2

// launch makes an eager call, unless the stream is being captured.
func (o *Order) launch(d *cuda.Dispatch, s cuda.Stream) (cuda.CaptureStatus, error) {
	status, err := o.lane.Launch(d, s, o.some && s != o.stream || s == perThread)
	if status == cuda.NotCapturing && err == nil {
		o.stream, o.some = s, true
	}
	return status, err
}

// capture makes a call part of a graph; pin comes first.
func (o *Order) capture(d *cuda.Dispatch, s cuda.Stream, pin func(cuda.Capture) error) error {
	api := o.device.API
	c, before, err := api.CaptureNodes(s)
	switch {
	case err != nil:
		return err
	case c.Status != cuda.Capturing:
		return errors.New("the capture of the stream was invalidated by an earlier call")
	}
	if err := pin(c); err != nil {
		return err
	}
	if c.ID == o.captured && s != o.at && !slices.Contains(before, o.node) {
		if err := api.DependOn(s, o.node); err != nil {
			return err
		}
	}
	if err := api.LaunchKernel(d, s); err != nil {
		return err
	}
	_, after, err := api.CaptureNodes(s)
	if err == nil && len(after) != 1 {
		err = errors.New("the driver does not say which node of the graph the kernel is")
	}
	if err == nil {
		o.captured, o.at, o.node = c.ID, s, after[0]
	}
	return err
}

// idle reports whether all eager calls are done. The error is of a context that is of no more use.
func (o *Order) idle() (done bool, err error) {
	err = o.device.Do(func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.users == 0 {
			done = true
			return nil
		}
		done, err = o.device.API.EventDone(o.event)
		return err
	})
	return done, err
}
