package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// library is a backend whose plan is a library.
func library(path, version string) dispatch.Candidate {
	f := &harness.Fake{Plans: func(int) (plan.Plan, error) { return &plan.Library{Path: path, Version: version, Variant: "nccl"}, nil }}
	f.Says = backend.Info{Name: "library", Kind: plan.LibraryKind, Requirements: backend.Requirements{Memories: []collective.Memory{collective.CUDA}}}
	return dispatch.Candidate{Plugin: "test", Info: f.Says, Backend: f}
}

// onHost is a backend for host memory.
func onHost(name string) dispatch.Candidate {
	return harness.Candidate(name, &harness.Fake{Says: backend.Info{Requirements: backend.Requirements{Memories: []collective.Memory{collective.Host}}}})
}

func TestDeviceAllReduce(t *testing.T) {
	for _, world := range []int{1, 2, 3} {
		j := harness.StartAgent(t, world, nil, library(harness.FakeNCCL(t), "2.28.9"))
		harness.NoErrors(t, j.EachDevice(t, world, func(s *rank.Session, d *ondevice.Program) error {
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
		if all := j.Decided(); len(all) != 1 || all[0].Err != nil {
			t.Errorf("decisions %+v", all)
		}
	}
}

// TestDeviceRepeat makes calls like the one before, for which nothing is asked again, when something has changed all the same.
func TestDeviceRepeat(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"))
	eager := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	captured, maximum := eager, eager
	captured.Captured, maximum.Op = true, collective.Max
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
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
	j := harness.StartAgent(t, 3, nil, library(harness.FakeNCCL(t), "2.28.9"))
	harness.NoErrors(t, j.EachDevice(t, 3, func(s *rank.Session, _ *ondevice.Program) error {
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
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"))
	captured := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum, Captured: true}
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
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
