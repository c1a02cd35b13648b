// Package ondevice is what tests do on a GPU as a rank's program does: a context, a stream, buffers with known sums.
package ondevice

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
)

// Bytes is the size of the buffers.
const Bytes = 1 << 16

// Program is a rank's own use of its device. Its context is current on the thread that New locked the goroutine to.
type Program struct {
	*cuda.API
	Context  cuda.Context
	Stream   cuda.Stream
	Src, Dst cuda.Pointer

	own [2]cuda.Pointer
}

// New uses the primary context of a device.
func New(a *cuda.API, device int) (p *Program, err error) {
	runtime.LockOSThread()
	p = &Program{API: a}
	if p.Context, err = a.Retain(device); err != nil {
		return nil, err
	}
	err = a.SetCurrent(p.Context)
	if err == nil {
		p.Stream, err = a.NewStream()
	}
	for i := range p.own {
		if err == nil {
			p.own[i], err = a.Alloc(Bytes)
		}
	}
	p.Src, p.Dst = p.own[0], p.own[1]
	return p, err
}

// Open is New with the machine's driver, for a group that the process has joined with a device.
func Open(g *rank.Group) (*Program, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	a, err := driver.Bind()
	if err != nil {
		return nil, err
	}
	if err := a.Init(); err != nil {
		return nil, err
	}
	return New(a, g.Facts().Ranks[g.Rank()].Device.Index)
}

// Close gives back what New took but the context.
func (p *Program) Close() error {
	defer runtime.UnlockOSThread()
	return errors.Join(p.Free(p.own[0]), p.Free(p.own[1]), p.DestroyStream(p.Stream))
}

// Raw is the bytes of a slice.
func Raw[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// Load puts n of a rank's numbers into the input.
func (p *Program) Load(g *rank.Group, n int) error {
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(g.Rank() + i%7)
	}
	if p.Src != p.Dst {
		if err := p.Fill(p.Dst, 0xff, int64(4*n)); err != nil {
			return err
		}
	}
	return p.ToDevice(p.Src, Raw(src))
}

// Check waits for the stream and compares a result with the sum of what Load wrote.
func (p *Program) Check(g *rank.Group, at cuda.Pointer, n int) error {
	got := make([]float32, n)
	if err := errors.Join(p.SynchronizeStream(p.Stream), p.ToHost(Raw(got), at)); err != nil {
		return err
	}
	for i := range got {
		if want := float32(g.Size()*(g.Size()-1)/2 + g.Size()*(i%7)); got[i] != want {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], want)
		}
	}
	return nil
}

// Sum enqueues an all-reduce of n elements.
func (p *Program) Sum(g *rank.Group, dst, src cuda.Pointer, n int) error {
	return rank.AllReduceDevice(g, uintptr(dst), uintptr(src), int64(n), collective.Float32, collective.Sum, uintptr(p.Stream))
}

// Once loads, sums out of place and checks.
func (p *Program) Once(g *rank.Group, n int) error {
	return errors.Join(p.Load(g, n), p.Sum(g, p.Dst, p.Src, n), p.Check(g, p.Dst, n))
}

// Capture records f in a graph and instantiates it. kinds are the graph's nodes.
func (p *Program) Capture(f func() error) (x cuda.GraphExec, kinds []int, err error) {
	return p.capture(cuda.CaptureGlobal, f)
}

// CaptureLocal is Capture where other ranks of this process go on meanwhile.
func (p *Program) CaptureLocal(f func() error) (x cuda.GraphExec, kinds []int, err error) {
	return p.capture(cuda.CaptureThreadLocal, f)
}

func (p *Program) capture(mode cuda.CaptureMode, f func() error) (x cuda.GraphExec, kinds []int, err error) {
	if err := p.BeginCapture(p.Stream, mode); err != nil {
		return 0, nil, err
	}
	failed := f()
	g, err := p.EndCapture(p.Stream)
	if err = errors.Join(failed, err); err != nil {
		return 0, nil, err
	}
	if kinds, err = p.NodeKinds(g); err != nil {
		return 0, nil, err
	}
	x, err = p.Instantiate(g)
	return x, kinds, errors.Join(err, p.DestroyGraph(g))
}

// Usable says whether the device still takes work after a failure.
func (p *Program) Usable() error {
	q, err := p.Alloc(64)
	if err != nil {
		return fmt.Errorf("the device is not usable any more: %w", err)
	}
	s, err := p.NewStream()
	if err != nil {
		return fmt.Errorf("the device is not usable any more: %w", err)
	}
	got := make([]byte, 64)
	err = errors.Join(p.FillAsync(q, 3, 64, s), p.SynchronizeStream(s), p.ToHost(got, q), p.Free(q), p.DestroyStream(s))
	if err != nil || got[63] != 3 {
		return fmt.Errorf("the device is not usable any more: %w", err)
	}
	return nil
}

// AwaitFailure waits until the group has failed, without touching the device, and returns how.
func AwaitFailure(g *rank.Group) error {
	await.Poll(await.For(30*time.Second), func() bool { return g.Err() != nil })
	return g.Err()
}

// BadCall is arguments that a rank refuses.
type BadCall struct {
	Name     string
	Dst, Src cuda.Pointer
	Count    int64
	Type     collective.DataType
	Op       collective.Op
	Stream   cuda.Stream
	Words    string // in the error
}

// BadCalls are those that need one device only. pinned is page-locked host memory.
func (p *Program) BadCalls(pinned []byte) []BadCall {
	onHost := make([]float32, 100)
	f32, sum, s := collective.Float32, collective.Sum, p.Stream
	at := func(p unsafe.Pointer) cuda.Pointer { return cuda.Pointer(uintptr(p)) }
	return []BadCall{
		{"host memory", p.Dst, at(unsafe.Pointer(&onHost[0])), 100, f32, sum, s, "is not device memory: CUDA does not know the address"},
		{"null", 0, p.Src, 100, f32, sum, s, "dst (0x0) is not device memory"},
		{"page-locked", p.Dst, at(unsafe.Pointer(&pinned[0])), 100, f32, sum, s, "it is page-locked host memory"},
		{"too long", p.Src, p.Src, 1 << 30, f32, sum, s, "bytes left in its allocation, the call needs 4294967296"},
		{"overlap", p.Src + 4, p.Src, 100, f32, sum, s, "overlap in part"},
		{"not aligned", p.Dst + 2, p.Src, 100, f32, sum, s, "does not begin at a multiple of 4 bytes"},
		{"nothing", p.Dst, p.Src, 0, f32, sum, s, "0 elements"},
		{"less than nothing", p.Dst, p.Src, -3, f32, sum, s, "-3 elements"},
		{"a count that wraps around", p.Dst, p.Src, 1<<62 + 1, f32, sum, s, "4611686018427387905 elements"},
		{"no such type", p.Dst, p.Src, 100, 99, sum, s, "unknown data type"},
		{"no such op", p.Dst, p.Src, 100, f32, 99, s, "unknown reduce op"},
	}
}

// Refuse makes the calls, all of which must be refused with the right words.
func Refuse(g *rank.Group, calls []BadCall, meet func() error) error {
	for _, c := range calls {
		if err := meet(); err != nil {
			return err
		}
		err := rank.AllReduceDevice(g, uintptr(c.Dst), uintptr(c.Src), c.Count, c.Type, c.Op, uintptr(c.Stream))
		if err == nil || !strings.Contains(err.Error(), c.Words) {
			return fmt.Errorf("%s: error %w, want one with %q", c.Name, err, c.Words)
		}
		if !errors.Is(err, rank.ErrRefused) {
			return fmt.Errorf("%s: %w: is not ErrRefused", c.Name, err)
		}
	}
	return meet()
}

// AwaitDone waits for a program's stream, but not for ever.
func AwaitDone(p *Program, patience time.Duration) error {
	var err error
	var done bool
	if await.Poll(patience, func() bool { done, err = p.StreamDone(p.Stream); return done || err != nil }) {
		return err
	}
	return fmt.Errorf("the stream did not come to an end within %s", patience)
}
