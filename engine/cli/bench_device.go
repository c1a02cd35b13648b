package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
)

// benchGPU is a rank's buffers and stream on its device.
type benchGPU struct {
	api     *cuda.API
	stream  cuda.Stream
	in, dst cuda.Pointer
	host    []byte // as long as the largest message

	graphs   map[int]cuda.GraphExec // of the calls that are measured now, by their number
	launches int                    // of a graph in one block; 0: calls are made one by one
}

// openGPU makes the buffers in the primary context of the rank's device, which stays current on the thread.
func openGPU(ctx context.Context, g *rank.Group, largest int64, spec bench.Spec) (*benchGPU, error) {
	runtime.LockOSThread()
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	api, err := driver.Bind()
	if err != nil {
		return nil, err
	}
	b := &benchGPU{api: api, host: alignedBytes(largest), launches: spec.Launches, graphs: map[int]cuda.GraphExec{}}
	context, err := api.Retain(g.Facts().Ranks[g.Rank()].Device.Index)
	if err == nil {
		err = api.SetCurrent(context)
	}
	if err == nil {
		b.stream, err = api.NewStream()
	}
	for _, p := range []*cuda.Pointer{&b.in, &b.dst} {
		switch {
		case err != nil:
		case spec.Registered:
			var memory *rank.DeviceMemory
			if memory, err = g.AllocDevice(ctx, largest); err == nil {
				*p = cuda.Pointer(memory.Pointer())
			}
		default:
			*p, err = api.Alloc(largest)
		}
	}
	return b, err
}

// wait waits for the stream. It ends also when the group fails, since its communicators are aborted then.
func (b *benchGPU) wait() error { return b.api.SynchronizeStream(b.stream) }

// deviceWork is how calls of a size are made in device memory.
func (r *benchRank) deviceWork(c *bench.Cell, p *bench.Pattern, inPlace bool) benchWork {
	b := r.gpu
	host, src := b.host[:c.Bytes], b.in
	if inPlace {
		src = b.dst
	}
	enqueue := func() error {
		return rank.AllReduceDevice(r.group, uintptr(b.dst), uintptr(src), c.Count, c.DataType, c.Op, uintptr(b.stream))
	}
	w := benchWork{
		clear: func() error {
			p.Fill(host)
			if inPlace { // sums of sums would soon be infinite
				fill(host, 0)
			}
			return errors.Join(b.forget(), b.api.ToDevice(src, host))
		},
		prepare: func() error {
			p.Fill(host)
			return errors.Join(b.api.Fill(b.dst, 0xff, c.Bytes), b.api.ToDevice(src, host))
		},
		wrong: func() (int64, error) {
			err := b.api.ToHost(host, b.dst)
			return p.Wrong(host), err
		},
	}
	if b.launches == 0 {
		w.run = func(n int) error {
			for range n {
				if err := enqueue(); err != nil {
					return err
				}
			}
			return b.wait()
		}
		w.call = func() error { return w.run(1) }
		return w
	}
	w.scale = b.launches
	w.ready = func(n int) error { return b.capture(n, enqueue) }
	w.run = func(n int) error { return b.launch(n, b.launches) }
	w.call = func() error { return errors.Join(w.ready(1), b.launch(1, 1)) }
	return w
}

// launch runs the graph of n calls some times and waits until they are done.
func (b *benchGPU) launch(n, times int) error {
	for range times {
		if err := b.api.Launch(b.graphs[n], b.stream); err != nil {
			return err
		}
	}
	return b.wait()
}

// capture makes a graph of n calls, if there is none.
func (b *benchGPU) capture(n int, enqueue func() error) error {
	if b.graphs[n] != 0 {
		return nil
	}
	if err := b.api.BeginCapture(b.stream, cuda.CaptureGlobal); err != nil {
		return err
	}
	var failed error
	for i := 0; i < n && failed == nil; i++ {
		failed = enqueue()
	}
	g, err := b.api.EndCapture(b.stream)
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("capture of %d calls: %w", n, err)
	}
	x, err := b.api.Instantiate(g)
	b.graphs[n] = x
	return errors.Join(err, b.api.DestroyGraph(g))
}

// forget destroys the graphs of the size before.
func (b *benchGPU) forget() error {
	var errs []error
	for n, x := range b.graphs {
		errs = append(errs, b.api.DestroyExec(x))
		delete(b.graphs, n)
	}
	return errors.Join(errs...)
}
