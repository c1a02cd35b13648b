package p2p

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
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

// offer makes memory that another process may map.
func (w *worker) offer() (*os.File, error) {
	page, err := w.api.Granularity(w.device.Index)
	if err != nil {
		return nil, err
	}
	m := mapping{bytes: (offerSize + page - 1) / page * page}
	if m.block, err = w.api.NewBlock(w.device.Index, m.bytes); err != nil {
		return nil, err
	}
	if m.at, err = w.api.Map(m.block, m.bytes, w.device.Index); err != nil {
		return nil, errors.Join(err, w.api.ReleaseBlock(m.block))
	}
	w.offered = m
	return w.api.ExportBlock(m.block)
}

// take maps the memory of another GPU.
func (w *worker) take(owner string, file *os.File, r *reply) error {
	peer, err := w.api.Find(owner)
	if err != nil {
		r.Unseen = err.Error()
		return nil
	}
	can := peer.Index == w.device.Index // two processes on one GPU
	if !can {
		if can, err = w.api.CanAccessPeer(w.device.Index, peer.Index); err != nil {
			return err
		}
	}
	if !can {
		r.Refused = "cuDeviceCanAccessPeer says no"
		return nil
	}
	if file == nil {
		return errors.New("no descriptor came with the memory")
	}
	page, err := w.api.Granularity(peer.Index)
	if err != nil {
		return err
	}
	m := mapping{bytes: (offerSize + page - 1) / page * page}
	if m.block, err = w.api.ImportBlock(file); err != nil {
		return err
	}
	if m.at, err = w.api.Map(m.block, m.bytes, w.device.Index); err != nil {
		return errors.Join(err, w.api.ReleaseBlock(m.block))
	}
	w.taken = m
	return nil
}

func (w *worker) drop() error {
	var errs []error
	for _, m := range []*mapping{&w.offered, &w.taken} {
		if m.at != 0 {
			errs = append(errs, w.api.Unmap(m.at, m.bytes), w.api.ReleaseBlock(m.block))
		}
		*m = mapping{}
	}
	return errors.Join(errs...)
}

// arm poisons the memory offered and starts the kernel that waits for a round.
func (w *worker) arm(r round) error {
	clear(w.shared)
	err := errors.Join(
		w.api.FillAsync(w.offered.at, poison, offerSize, w.stream),
		w.api.FillAsync(w.report, 0, sharedBytes, w.stream),
	)
	if err == nil {
		err = w.api.SynchronizeStream(w.stream) // nobody has been told of the memory yet
	}
	if err != nil {
		return err
	}
	args := []uint64{uint64(w.offered.at), uint64(r.Bytes / 8), r.Seed, r.Flag, looks, uint64(w.report), uint64(w.sharedDevice)}
	if r.Copy {
		return w.launch(w.check, append(args, uint64(w.offered.at+flagAt))...)
	}
	return w.launch(w.pull, args...)
}

// write writes a round into the memory taken, and returns when it has been written as far as this GPU knows.
func (w *worker) write(r round, patience time.Duration) error {
	if !r.Copy {
		if err := w.launch(w.push, uint64(w.taken.at), uint64(r.Bytes/8), r.Seed, r.Flag); err != nil {
			return err
		}
		return w.wait(patience)
	}
	data := make([]byte, r.Bytes+8)
	fill(data[:r.Bytes], r.Seed, 0)
	binary.LittleEndian.PutUint64(data[r.Bytes:], r.Flag)
	if err := w.api.ToDevice(w.source, data); err != nil {
		return err
	}
	err := errors.Join(
		w.api.CopyAsync(w.taken.at, w.source, r.Bytes, w.stream),
		w.api.CopyAsync(w.taken.at+flagAt, w.source+cuda.Pointer(r.Bytes), 8, w.stream),
	)
	if err != nil {
		return err
	}
	return w.wait(patience)
}

// endPatience is how long a kernel may take to leave when it is told to.
const endPatience = 5 * time.Second

// finish gives the waiting kernel some time after its peer has written, then ends it and looks at what has come. patience
// begins when the kernel runs, which it may not at once on a GPU that others use.
func (w *worker) finish(r round, patience time.Duration) (f found, err error) {
	for end := time.Now().Add(endPatience); w.look(beganAt) == 0 && time.Now().Before(end); {
		if done, err := w.api.StreamDone(w.stream); done || err != nil {
			break
		}
		time.Sleep(pause)
	}
	if err := w.wait(patience); errors.Is(err, errNotDone) {
		atomic.StoreUint32(w.word(stopAt), 1)
		if err := w.wait(endPatience); err != nil {
			return f, fmt.Errorf("the waiting kernel: %w", err)
		}
	} else if err != nil {
		return f, err
	}
	report, got := make([]byte, sharedBytes), make([]byte, r.Bytes)
	if err := errors.Join(w.api.ToHost(report, w.report), w.api.ToHost(got, w.offered.at)); err != nil {
		return f, err
	}
	f.Missing, f.Wrong = binary.LittleEndian.Uint32(report[missingAt:]), binary.LittleEndian.Uint32(report[wrongAt:])
	f.compare(r, got)
	return f, nil
}

// word is one of the words shared with the waiting kernel.
func (w *worker) word(at int) *uint32 { return (*uint32)(unsafe.Pointer(&w.shared[at])) }

func (w *worker) look(at int) uint32 { return atomic.LoadUint32(w.word(at)) }

const pause = 50 * time.Microsecond

var errNotDone = errors.New("not done in time")

// wait waits until the stream has no work.
func (w *worker) wait(patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		done, err := w.api.StreamDone(w.stream)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errNotDone
		}
	}
}
