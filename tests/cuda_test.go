package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

// fakeGPUs gives this process a driver with n devices; the loader takes it for every later request of libcuda.so.1.
func fakeGPUs(t testing.TB, n int) *cuda.API {
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
func fakeLibraries(t testing.TB) string {
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

var kernelsOnce sync.Once

// fakeKernels are images of kernels for the fake driver: right ones, and others that are wrong as their names say.
func fakeKernels(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(fakeLibraries(t), "kernels")
	kernelsOnce.Do(func() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, flag := range map[string]string{
			"right": "-DRIGHT", "wrong": "-DWRONG=1", "deaf": "-DDEAF", "hasty": "-DHASTY", "crash": "-DCRASH=1", "late-crash": "-DCRASH=1 -DCRASH_AT=200",
			"endless": "-DENDLESS", "other-header": "-DOTHER_VERSION",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), fakegpu.Kernel(t, strings.Fields(flag)...).Image, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

func fakeNCCL(t testing.TB) string {
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
func (j *job) eachDevice(t *testing.T, world int, f func(s *rank.Session, d *ondevice.Program) error) []error {
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
			d, err := ondevice.New(a, r)
			if err != nil {
				errs[r] = err
				return
			}
			errs[r] = f(s, d)
			errs[r] = errors.Join(errs[r], d.Close())
		})
	}
	wg.Wait()
	return errs
}

func TestDeviceAllReduce(t *testing.T) {
	for _, world := range []int{1, 2, 3} {
		j := startAgent(t, world, nil, library(fakeNCCL(t), "2.28.9"))
		noErrors(t, j.eachDevice(t, world, func(s *rank.Session, d *ondevice.Program) error {
			g := s.World()
			for _, n := range []int{1, 1000, ondevice.Bytes / 4} {
				if err := errors.Join(d.Load(g, n), d.Sum(g, d.Dst, d.Src, n), d.Check(g, d.Dst, n), d.Sum(g, d.Src, d.Src, n), d.Check(g, d.Src, n)); err != nil {
					return fmt.Errorf("%d elements: %w", n, err)
				}
			}
			if now, err := d.Current(); now != d.Context || err != nil {
				return fmt.Errorf("the thread's context was changed")
			}
			return g.Err()
		}))
		if all := j.all(); len(all) != 1 || all[0].Err != nil {
			t.Errorf("decisions %+v", all)
		}
	}
}

// TestDeviceRepeat makes calls like the one before, for which nothing is asked again, when something has changed all the same.
func TestDeviceRepeat(t *testing.T) {
	j := startAgent(t, 2, nil, library(fakeNCCL(t), "2.28.9"))
	eager := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	captured, maximum := eager, eager
	captured.Captured, maximum.Op = true, collective.Max
	noErrors(t, j.eachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g, n := s.World(), 1000
		same := func() error { return d.Sum(g, d.Dst, d.Src, n) }
		if err := errors.Join(d.Once(g, n), d.Once(g, n), same(), d.Check(g, d.Dst, n)); err != nil {
			return fmt.Errorf("twice: %w", err)
		}
		if _, _, err := d.CaptureLocal(same); err == nil || !strings.Contains(err.Error(), "has not been decided") {
			return fmt.Errorf("captured before it was decided: %w", err)
		}
		if err := errors.Join(d.Once(g, n), d.Once(g, n), g.Warm(t.Context(), captured), d.Once(g, n), d.Once(g, n)); err != nil {
			return fmt.Errorf("after a failed call and Warm: %w", err)
		}
		x, _, err := d.CaptureLocal(same)
		if err != nil {
			return fmt.Errorf("captured: %w", err)
		}
		if err := errors.Join(d.Load(g, n), d.Launch(x, d.Stream), d.Check(g, d.Dst, n), d.DestroyExec(x), d.Once(g, n)); err != nil {
			return fmt.Errorf("replayed: %w", err)
		}
		if err := errors.Join(d.Once(g, n), g.Warm(t.Context(), maximum), d.Once(g, n)); err != nil { // the self-test used the same communicator
			return fmt.Errorf("after a self-test: %w", err)
		}
		m, err := g.AllocDevice(t.Context(), 1<<16)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Once(g, n), d.Once(g, n), m.Free(), d.Once(g, n)); err != nil {
			return fmt.Errorf("with registered memory: %w", err)
		}
		if err := d.SetCurrent(0); err != nil {
			return err
		}
		err = same() // from a thread without a context
		return errors.Join(err, d.SetCurrent(d.Context), d.Check(g, d.Dst, n), g.Err())
	}))
}

// TestDeviceTypesAndOps runs the self-test of every class.
func TestDeviceTypesAndOps(t *testing.T) {
	j := startAgent(t, 3, nil, library(fakeNCCL(t), "2.28.9"))
	noErrors(t, j.eachDevice(t, 3, func(s *rank.Session, _ *ondevice.Program) error {
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
	noErrors(t, j.eachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g, n := s.World(), 1000
		if err := g.Barrier(t.Context()); err != nil { // a rank that still allocates would break a capture in this process
			return err
		}
		// A class that has not been decided: the call fails and names it, the capture goes on.
		if err := d.BeginCapture(d.Stream, cuda.CaptureGlobal); err != nil {
			return err
		}
		err := d.Sum(g, d.Dst, d.Src, n)
		if err == nil || !strings.Contains(err.Error(), `class "cuda float32 sum captured" has not been decided; call Warm`) {
			return fmt.Errorf("undecided class in a capture: %v", err)
		}
		empty, err := d.EndCapture(d.Stream)
		if err != nil {
			return err
		}
		if err := errors.Join(d.DestroyGraph(empty), g.Warm(t.Context(), captured)); err != nil {
			return err
		}
		// What the other rank of this process does between captures would break them.
		meet := func() error { return g.Barrier(t.Context()) }
		if err := errors.Join(d.Load(g, n), meet(), d.BeginCapture(d.Stream, cuda.CaptureGlobal)); err != nil {
			return err
		}
		if err := errors.Join(d.Sum(g, d.Dst, d.Src, n), d.Sum(g, d.Src, d.Src, n)); err != nil {
			return err
		}
		graph, err := d.EndCapture(d.Stream)
		if err := errors.Join(err, meet()); err != nil {
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
			if err := errors.Join(d.Load(g, n), d.Launch(x, d.Stream), d.Check(g, d.Dst, n), d.Check(g, d.Src, n)); err != nil {
				return err
			}
		}
		// The graph outlives the group: it keeps the plan, which Close leaves to it.
		if err := errors.Join(d.DestroyGraph(graph), g.Barrier(t.Context()), g.Close()); err != nil {
			return err
		}
		if err := errors.Join(d.Load(g, n), d.Launch(x, d.Stream), d.Check(g, d.Dst, n)); err != nil {
			return fmt.Errorf("after Close: %w", err)
		}
		return d.DestroyExec(x)
	}))
}
