package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
)

// onDevice makes the all-reduces of a pass in the memory of the rank's GPU, one after the other on a stream.
type onDevice struct {
	api     *cuda.API
	group   *rank.Group
	stream  cuda.Stream
	in, out cuda.Pointer
	graph   cuda.GraphExec // of a whole pass; 0 until it has been captured
	capture bool
}

// newOnDevice uses the primary context of the device that the rank joined with, as the CUDA runtime would.
func newOnDevice(group *rank.Group, capture bool) (*onDevice, error) {
	runtime.LockOSThread() // a context is a thread's
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	api, err := driver.Bind()
	if err != nil {
		return nil, err
	}
	context, err := api.Retain(group.Facts().Ranks[group.Rank()].Device.Index)
	if err == nil {
		err = api.SetCurrent(context)
	}
	d := &onDevice{api: api, group: group, capture: capture}
	if err == nil {
		d.stream, err = api.NewStream()
	}
	return d, err
}

// load puts a rank's numbers into device memory.
func (d *onDevice) load(in *inputs) error {
	var err error
	if d.in, err = d.api.Alloc(int64(2 * len(in.own))); err == nil {
		d.out, err = d.api.Alloc(int64(2 * in.count))
	}
	if err != nil {
		return fmt.Errorf("device memory: %w", err)
	}
	return d.api.ToDevice(d.in, raw(in.own))
}

// reduce enqueues the all-reduce of a layer.
func (d *onDevice) reduce(in *inputs, layer int) error {
	src := uintptr(d.in) + uintptr(2*layer)
	return rank.AllReduceDevice(d.group, uintptr(d.out), src, int64(in.count), collective.BFloat16, collective.Sum, uintptr(d.stream))
}

// pass makes all of them, and waits. check is called after each if it is not nil.
func (d *onDevice) pass(in *inputs, check func(layer int, got []collective.BF16) error) error {
	if check == nil && d.graph != 0 {
		return errors.Join(d.api.Launch(d.graph, d.stream), d.api.SynchronizeStream(d.stream))
	}
	out := make([]collective.BF16, in.count)
	for layer := range allReduces {
		if err := d.reduce(in, layer); err != nil {
			return err
		}
		if check == nil {
			continue
		}
		if err := d.read(out); err != nil {
			return err
		}
		if err := check(layer, out); err != nil {
			return err
		}
	}
	if d.capture {
		if err := d.record(in); err != nil {
			return err
		}
	}
	return d.api.SynchronizeStream(d.stream)
}

// record captures a pass in a graph.
func (d *onDevice) record(in *inputs) error {
	if err := d.api.BeginCapture(d.stream, cuda.CaptureGlobal); err != nil {
		return err
	}
	var failed error
	for layer := 0; layer < allReduces && failed == nil; layer++ {
		failed = d.reduce(in, layer)
	}
	g, err := d.api.EndCapture(d.stream)
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	d.graph, err = d.api.Instantiate(g)
	return errors.Join(err, d.api.DestroyGraph(g))
}

// read copies a result to the host when the stream is done.
func (d *onDevice) read(out []collective.BF16) error {
	return errors.Join(d.api.SynchronizeStream(d.stream), d.api.ToHost(raw(out), d.out))
}

// measure is measureHost in device memory.
func (d *onDevice) measure(_ *rank.Group, in *inputs, passes int) (time.Duration, error) {
	if err := d.load(in); err != nil {
		return 0, err
	}
	if err := d.pass(in, in.check); err != nil {
		return 0, err
	}
	var took []time.Duration
	for range passes {
		start := time.Now()
		if err := d.pass(in, nil); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	out := make([]collective.BF16, in.count)
	if err := errors.Join(d.read(out), in.check(allReduces-1, out), d.unload()); err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// unload gives the memory and the graph back.
func (d *onDevice) unload() error {
	var err error
	if d.graph != 0 {
		err = d.api.DestroyExec(d.graph)
	}
	d.graph = 0
	return errors.Join(err, d.api.Free(d.in), d.api.Free(d.out))
}

// raw is the bytes of a slice.
func raw(s []collective.BF16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 2*len(s))
}
