package p2p

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// worker is one GPU's side of the proof, in a process of its own.
type worker struct {
	api      *cuda.API
	device   topology.Device
	context  cuda.Context
	stream   cuda.Stream
	launcher *cuda.Launcher

	push, pull, check cuda.Function
	values            [maxArguments]uint64 // of the present launch
	pointers          [maxArguments]unsafe.Pointer

	shared       []byte       // with the waiting kernel: page-locked
	sharedDevice cuda.Pointer // the same as the GPU sees it
	report       cuda.Pointer
	source       cuda.Pointer // of what is copied, with its flag behind

	offered, taken mapping
}

// mapping is memory that this GPU reaches.
type mapping struct {
	block cuda.Block
	at    cuda.Pointer
	bytes int64
}

// Serve is a worker: it does what comes over a socket of Verify's until that is closed.
func Serve(socket *os.File) error {
	c, err := connOf(socket)
	if err != nil {
		return err
	}
	defer c.socket.Close()
	w := &worker{}
	for {
		var q request
		file, err := c.receive(&q)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		r, out := w.answer(q, file)
		if file != nil {
			_ = file.Close()
		}
		err = c.send(r, out)
		if out != nil {
			_ = out.Close()
		}
		if err != nil {
			return fmt.Errorf("reply: %w", err)
		}
	}
}

func (w *worker) answer(q request, file *os.File) (r reply, out *os.File) {
	var err error
	do := func(f func() error) {
		if w.api == nil {
			err = errors.New("not opened")
			return
		}
		err = w.api.In(w.context, f)
	}
	switch q.Op {
	case opOpen:
		err = w.open(q.Device)
	case opOffer:
		do(func() (err error) { out, err = w.offer(); return err })
	case opTake:
		do(func() error { return w.take(q.Device, file, &r) })
	case opArm:
		do(func() error { return w.arm(q.Round) })
	case opWrite:
		do(func() error { return w.write(q.Round, q.Patience) })
	case opCheck:
		do(func() (err error) { r.Found, err = w.finish(q.Round, q.Patience); return err })
	case opDrop:
		do(w.drop)
	default:
		err = fmt.Errorf("unknown request %q", q.Op)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r, out
}

// open starts CUDA and gets ready what every direction takes.
func (w *worker) open(name string) error {
	d, err := cuda.Open()
	if err != nil {
		return err
	}
	a, err := d.Bind()
	if err != nil {
		return err
	}
	if err := a.Init(); err != nil {
		return err
	}
	if w.device, err = a.Find(name); err != nil {
		return err
	}
	if w.context, err = a.Retain(w.device.Index); err != nil {
		return err
	}
	w.api, w.launcher = a, a.NewLauncher()
	return a.In(w.context, w.prepare)
}

func (w *worker) prepare() (err error) {
	if w.stream, err = w.api.NewStream(); err != nil {
		return err
	}
	module, err := w.api.LoadModule(kernelImage)
	if err != nil {
		return err
	}
	for name, f := range map[string]*cuda.Function{"weir_p2p_push": &w.push, "weir_p2p_pull": &w.pull, "weir_p2p_check": &w.check} {
		if *f, err = w.api.Function(module, name); err != nil {
			return err
		}
	}
	if w.shared, err = w.api.AllocHost(sharedBytes); err != nil {
		return err
	}
	if w.sharedDevice, err = w.api.HostPointer(w.shared); err != nil {
		return err
	}
	if w.report, err = w.api.Alloc(sharedBytes); err != nil {
		return err
	}
	w.source, err = w.api.Alloc(longest + 8)
	return err
}
