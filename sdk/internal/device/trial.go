package device

import (
	"errors"
	"fmt"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/sdk/native/cuda"
)

// Enqueue puts an all-reduce of device memory on a stream.
type Enqueue func(dst, src cuda.Pointer, bytes int64, s cuda.Stream) error

// Trial makes all-reduces of host memory by way of the device, as a self-test does.
type Trial struct {
	Device   *Device
	Enqueue  Enqueue
	Captured bool           // run each from a graph
	Exec     cuda.GraphExec // lent, for the graphs that are like it; may be 0
	Deadline time.Time      // for all of them
	Stopped  func() error   // asked while waiting; an error ends the wait. May be nil

	// Where the buffers come from; nil: device memory of the rank's own.
	Alloc func(bytes int64) (cuda.Pointer, error)
	Free  func(cuda.Pointer) error

	stream  cuda.Stream // from Reserve until Close
	in, out cuda.Pointer
	graphs  []cuda.Graph     // until Close
	execs   []cuda.GraphExec // what was made of those that are not like Exec; the last serves all that are like it
	host    [2][]byte        // of the last Run, which copies may still be for when it has been given up
}

// Run makes one, of at most as many bytes as were reserved. dst and src are the same slice or disjoint.
func (t *Trial) Run(dst, src []byte) error {
	d := t.Device
	t.host = [2][]byte{dst, src}
	return d.Do(func() error {
		in := t.in
		if &dst[0] == &src[0] {
			in = t.out
		}
		s, bytes := t.stream, int64(len(src))
		if err := errors.Join(d.API.ToDeviceAsync(t.out, dst, s), d.API.ToDeviceAsync(in, src, s), t.wait()); err != nil {
			return err
		}
		if err := t.once(func() error { return t.Enqueue(t.out, in, bytes, s) }); err != nil {
			return err
		}
		return errors.Join(d.API.ToHostAsync(dst, t.out, s), d.API.ToHostAsync(src, in, s), t.wait())
	})
}

// once has the stream do what f enqueues, and waits for it.
func (t *Trial) once(f func() error) error {
	d := t.Device
	if !t.Captured {
		if err := f(); err != nil {
			return err
		}
		return t.wait()
	}
	g, err := d.record(t.stream, f)
	if err != nil {
		return err
	}
	// Kept until Close: destroying one may wait for the whole device, where a rank of this process may be waiting for this.
	t.graphs = append(t.graphs, g)
	x, err := t.executable(g)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if err := d.API.Launch(x, t.stream); err != nil {
		return err
	}
	return t.wait()
}

// executable is a graph that can be launched. When the driver has to find room for another one it waits for the whole device,
// where a rank of this process may be waiting for this (seen on an H200 with driver 580 at some thirty graphs, sometimes at the
// first), so that there is one for all that are alike.
func (t *Trial) executable(g cuda.Graph) (cuda.GraphExec, error) {
	for _, x := range []cuda.GraphExec{t.Exec, lo.LastOrEmpty(t.execs)} {
		if x == 0 {
			continue
		}
		if done, err := t.Device.API.Update(x, g); done || err != nil {
			return x, err
		}
	}
	x, err := t.Device.API.Instantiate(g)
	if err == nil {
		t.execs = append(t.execs, x)
	}
	return x, err
}

func (t *Trial) wait() error { return t.Device.Wait(t.stream, t.Deadline, t.Stopped) }

// Record is what f puts on a stream, as a graph. Within Do.
func (d *Device) Record(f func(s cuda.Stream) error) (cuda.Graph, error) {
	s, err := d.take()
	if err != nil {
		return 0, err
	}
	defer d.give(s)
	return d.record(s, func() error { return f(s) })
}

func (d *Device) record(s cuda.Stream, f func() error) (cuda.Graph, error) {
	if err := d.API.BeginCapture(s, cuda.CaptureThreadLocal); err != nil {
		return 0, err
	}
	err := f()
	g, e := d.API.EndCapture(s)
	if err = errors.Join(err, e); err != nil {
		return 0, fmt.Errorf("capture: %w", err)
	}
	return g, nil
}

// Wait waits until a stream's work is done, without a call that cannot be given up. stopped may be nil.
func (d *Device) Wait(s cuda.Stream, deadline time.Time, stopped func() error) error {
	for nap := time.Microsecond; ; nap = min(2*nap, time.Millisecond) {
		done, err := d.API.StreamDone(s)
		switch {
		case err != nil || done:
			return err
		case time.Now().After(deadline):
			return errors.New("the device did not finish before the deadline")
		case stopped != nil:
			if err := stopped(); err != nil {
				return err
			}
		}
		time.Sleep(nap)
	}
}

// Reserve takes memory for calls of up to so many bytes. It comes before the first: later, a peer's call may be running
// on the same device, which freeing memory waits for.
func (t *Trial) Reserve(bytes int64) error {
	if t.Alloc == nil {
		t.Alloc, t.Free = t.Device.API.Alloc, t.Device.API.Free
	}
	return t.Device.Do(func() (err error) {
		if t.stream, err = t.Device.take(); err != nil {
			return err
		}
		if t.in, err = t.Alloc(bytes); err == nil {
			t.out, err = t.Alloc(bytes)
		}
		return err
	})
}

func (t *Trial) free() {
	for _, x := range t.execs {
		_ = t.Device.API.DestroyExec(x)
	}
	for _, g := range t.graphs {
		_ = t.Device.API.DestroyGraph(g)
	}
	t.execs, t.graphs = nil, nil
	for _, p := range []*cuda.Pointer{&t.in, &t.out} {
		if *p != 0 {
			_ = t.Free(*p)
		}
		*p = 0
	}
}

// closePatience bounds how long Close waits for what a Run that failed has left on the stream.
const closePatience = 10 * time.Second

// Close frees the buffers when the stream uses them no more. After a Run that failed it comes when what is on trial has been
// given up; work that does not end all the same keeps the buffers.
func (t *Trial) Close() error {
	if t.stream == 0 {
		return nil // nothing was reserved
	}
	return t.Device.Do(func() error {
		if err := t.Device.Wait(t.stream, time.Now().Add(closePatience), nil); err != nil {
			return err
		}
		t.free()
		t.Device.give(t.stream)
		t.stream = 0
		return nil
	})
}
