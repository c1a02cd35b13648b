package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/require"
)

// fakeGPUs gives this process a driver with n devices; the loader takes it for every later request of libcuda.so.1.
func fakeGPUs(t *testing.T, n int) *cuda.API {
	t.Helper()
	t.Setenv("FAKE_CUDA_DEVICES", fmt.Sprint(n))
	lib, err := dl.Open(filepath.Join(fakeLibraries(t), "libcuda.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := cuda.Open(lib.Path())
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Bind()
	if err == nil {
		err = a.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var fakeFolder sync.Once

// fakeLibraries is the folder of the fake driver and the fake NCCL. They are built once: a process can have one driver only.
func fakeLibraries(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(bin, "fakegpu")
	require.Tool(t, "cc")
	fakeFolder.Do(func() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fakegpu.Both(t, dir)
	})
	return dir
}

func fakeNCCL(t *testing.T) string {
	t.Helper()
	return filepath.Join(fakeLibraries(t), "libnccl.so.2")
}

// library is a backend whose plan is a library.
func library(path, version string) dispatch.Candidate {
	f := &fake{plan: func(int) (plan.Plan, error) { return &plan.Library{Path: path, Version: version, Variant: "nccl"}, nil }}
	f.info = backend.Info{Name: "library", Kind: plan.LibraryKind, Requirements: backend.Requirements{Memories: []collective.Memory{collective.CUDA}}}
	return dispatch.Candidate{Plugin: "test", Info: f.info, Backend: f}
}

// onHost is a backend for host memory.
func onHost(name string) dispatch.Candidate {
	return candidate(name, &fake{info: backend.Info{Requirements: backend.Requirements{Memories: []collective.Memory{collective.Host}}}})
}

// eachDevice is each with a device for every rank: its number modulo that of the devices.
func (j *job) eachDevice(t *testing.T, world int, f func(s *rank.Session, d *onDevice) error) []error {
	t.Helper()
	a := fakeGPUs(t, world)
	errs := make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s, err := rank.Join(ctx, rank.Options{Socket: j.agent.Socket(), Rank: r, WorldSize: world, Device: rank.DeviceAuto})
			if err != nil {
				errs[r] = err
				return
			}
			defer func() { errs[r] = errors.Join(errs[r], s.Close()) }()
			d, err := newOnDevice(a, r)
			if err != nil {
				errs[r] = err
				return
			}
			errs[r] = f(s, d)
			errs[r] = errors.Join(errs[r], d.close())
		})
	}
	wg.Wait()
	return errs
}

// onDevice is a rank's own use of its device, as a program has it: a context current on its thread, a stream, buffers.
type onDevice struct {
	*cuda.API
	context cuda.Context
	stream  cuda.Stream
	in, out cuda.Pointer
	own     []cuda.Pointer
}

const deviceBytes = 1 << 16

func newOnDevice(a *cuda.API, device int) (d *onDevice, err error) {
	runtime.LockOSThread()
	d = &onDevice{API: a}
	if d.context, err = a.Retain(device); err != nil {
		return nil, err
	}
	err = a.SetCurrent(d.context)
	if err == nil {
		d.stream, err = a.NewStream()
	}
	if err == nil {
		d.in, err = a.Alloc(deviceBytes)
	}
	if err == nil {
		d.out, err = a.Alloc(deviceBytes)
	}
	d.own = []cuda.Pointer{d.in, d.out}
	return d, err
}

func (d *onDevice) close() error {
	defer runtime.UnlockOSThread()
	return errors.Join(d.Free(d.own[0]), d.Free(d.own[1]), d.DestroyStream(d.stream))
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// fill puts a rank's numbers into the input.
func (d *onDevice) fill(g *rank.Group, n int) error {
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(g.Rank() + i%7)
	}
	return errors.Join(d.ToDevice(d.in, bytesOf(src)), d.Fill(d.out, 0xff, int64(4*n)))
}

// fillInPlace is fill where in and out are the same.
func (d *onDevice) fillInPlace(g *rank.Group, n int) error {
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(g.Rank() + i%7)
	}
	return d.ToDevice(d.in, bytesOf(src))
}

// check compares a result with the sum of what fill wrote.
func (d *onDevice) check(g *rank.Group, at cuda.Pointer, n int) error {
	got := make([]float32, n)
	if err := errors.Join(d.SynchronizeStream(d.stream), d.ToHost(bytesOf(got), at)); err != nil {
		return err
	}
	for i := range got {
		if want := float32(g.Size()*(g.Size()-1)/2 + g.Size()*(i%7)); got[i] != want {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], want)
		}
	}
	return nil
}

func (d *onDevice) sum(g *rank.Group, dst, src cuda.Pointer, n int) error {
	return rank.AllReduceDevice(g, uintptr(dst), uintptr(src), int64(n), collective.Float32, collective.Sum, uintptr(d.stream))
}

func TestDeviceAllReduce(t *testing.T) {
	for _, world := range []int{1, 2, 3} {
		j := startAgent(t, world, nil, library(fakeNCCL(t), "2.28.9"))
		noErrors(t, j.eachDevice(t, world, func(s *rank.Session, d *onDevice) error {
			g := s.World()
			for _, n := range []int{1, 1000, deviceBytes / 4} {
				if err := errors.Join(d.fill(g, n), d.sum(g, d.out, d.in, n), d.check(g, d.out, n), d.sum(g, d.in, d.in, n), d.check(g, d.in, n)); err != nil {
					return fmt.Errorf("%d elements: %w", n, err)
				}
			}
			if now, err := d.Current(); now != d.context || err != nil {
				return fmt.Errorf("the thread's context was changed")
			}
			return g.Err()
		}))
		if all := j.all(); len(all) != 1 || all[0].Err != nil {
			t.Errorf("decisions %+v", all)
		}
	}
}

// TestDeviceTypesAndOps runs the self-test of every class.
func TestDeviceTypesAndOps(t *testing.T) {
	j := startAgent(t, 3, nil, library(fakeNCCL(t), "2.28.9"))
	noErrors(t, j.eachDevice(t, 3, func(s *rank.Session, _ *onDevice) error {
		var classes []collective.Class
		for _, dt := range collective.DataTypes() {
			for _, op := range collective.Ops() {
				classes = append(classes, collective.Class{Memory: collective.CUDA, DataType: dt, Op: op, Captured: op == collective.Sum})
			}
		}
		return s.World().Warm(t.Context(), classes...)
	}))
}

func TestDeviceCapture(t *testing.T) {
	j := startAgent(t, 2, nil, library(fakeNCCL(t), "2.28.9"))
	captured := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum, Captured: true}
	noErrors(t, j.eachDevice(t, 2, func(s *rank.Session, d *onDevice) error {
		g, n := s.World(), 1000
		if err := g.Barrier(t.Context()); err != nil { // a rank that still allocates would break a capture in this process
			return err
		}
		// A class that has not been decided: the call fails and names it, the capture goes on.
		if err := d.BeginCapture(d.stream, cuda.CaptureGlobal); err != nil {
			return err
		}
		err := d.sum(g, d.out, d.in, n)
		if err == nil || !strings.Contains(err.Error(), `class "cuda float32 sum captured" has not been decided; call Warm`) {
			return fmt.Errorf("undecided class in a capture: %v", err)
		}
		empty, err := d.EndCapture(d.stream)
		if err != nil {
			return err
		}
		if err := errors.Join(d.DestroyGraph(empty), g.Warm(t.Context(), captured)); err != nil {
			return err
		}
		if err := errors.Join(d.fill(g, n), d.BeginCapture(d.stream, cuda.CaptureGlobal)); err != nil {
			return err
		}
		if err := errors.Join(d.sum(g, d.out, d.in, n), d.sum(g, d.in, d.in, n)); err != nil {
			return err
		}
		graph, err := d.EndCapture(d.stream)
		if err != nil {
			return err
		}
		kinds, err := d.NodeKinds(graph)
		if err != nil || !slices.Equal(kinds, []int{0, 0}) {
			return fmt.Errorf("nodes %v, %v; want two kernels, as NCCL alone gives", kinds, err)
		}
		x, err := d.Instantiate(graph)
		if err != nil {
			return err
		}
		for range 3 {
			if err := errors.Join(d.fill(g, n), d.Launch(x, d.stream), d.check(g, d.out, n), d.check(g, d.in, n)); err != nil {
				return err
			}
		}
		// The graph outlives the group: it keeps the plan, which Close leaves to it.
		if err := errors.Join(d.DestroyGraph(graph), g.Barrier(t.Context()), g.Close()); err != nil {
			return err
		}
		if err := errors.Join(d.fill(g, n), d.Launch(x, d.stream), d.check(g, d.out, n)); err != nil {
			return fmt.Errorf("after Close: %w", err)
		}
		return d.DestroyExec(x)
	}))
}
