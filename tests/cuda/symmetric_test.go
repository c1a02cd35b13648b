package cuda

import (
	"errors"
	"fmt"
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

// symmetric is a backend for registered device memory.
func symmetric(path string) dispatch.Candidate {
	f := &harness.Fake{Plans: func(int) (plan.Plan, error) {
		return &plan.Library{Path: path, Version: "2.28.9", Variant: "nccl-symm"}, nil
	}}
	f.Says = backend.Info{Name: "symmetric", Kind: plan.LibraryKind, Priority: 1, Requirements: backend.Requirements{Memories: []collective.Memory{collective.CUDA}, Registered: true}}
	return dispatch.Candidate{Plugin: "test", Info: f.Says, Backend: f}
}

func registered(c collective.Class) collective.Class {
	c.Registered = true
	return c
}

// TestDeviceSymmetric has calls on registered and on other memory in turns, each served by its own backend.
func TestDeviceSymmetric(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, symmetric(harness.FakeNCCL(t)), library(harness.FakeNCCL(t), "2.28.9"))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g, n := s.World(), 1000
		a, err := g.AllocDevice(t.Context(), ondevice.Bytes)
		if err != nil {
			return err
		}
		b, err := g.AllocDevice(t.Context(), ondevice.Bytes)
		if err != nil {
			return err
		}
		plain := *d
		for range 2 {
			d.Src, d.Dst = cuda.Pointer(a.Pointer()), cuda.Pointer(b.Pointer())
			if err := errors.Join(d.Load(g, n), d.Sum(g, d.Dst, d.Src, n), d.Check(g, d.Dst, n)); err != nil {
				return fmt.Errorf("registered: %w", err)
			}
			d.Src, d.Dst = plain.Src, plain.Dst
			if err := errors.Join(d.Load(g, n), d.Sum(g, d.Dst, d.Src, n), d.Check(g, d.Dst, n)); err != nil {
				return fmt.Errorf("not registered: %w", err)
			}
		}
		if x, y := g.Backend(registered(harness.CUDASum), 4), g.Backend(harness.CUDASum, 4); x != "symmetric" || y != "library" {
			return fmt.Errorf("served by %q and %q", x, y)
		}
		if err := errors.Join(a.Free(), g.Err()); err != nil {
			return err
		}
		if err := a.Free(); err == nil || !strings.Contains(err.Error(), "it was given back before") {
			return fmt.Errorf("freed twice: %v", err)
		}
		return nil
	}))
}

// TestDeviceSymmetricDeclined falls back to a backend that has no use for windows: the memory is there all the same.
func TestDeviceSymmetricDeclined(t *testing.T) {
	t.Setenv("FAKE_NCCL_NO_WINDOW", "1")
	j := harness.StartAgent(t, 2, nil, symmetric(harness.FakeNCCL(t)), library(harness.FakeNCCL(t), "2.28.9"))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		m, err := g.AllocDevice(t.Context(), ondevice.Bytes)
		if err != nil {
			return err
		}
		old := d.Src
		d.Src, d.Dst = cuda.Pointer(m.Pointer()), cuda.Pointer(m.Pointer())
		err = errors.Join(d.Load(g, 100), d.Sum(g, d.Dst, d.Src, 100), d.Check(g, d.Dst, 100))
		d.Src, d.Dst = old, 0
		if name := g.Backend(registered(harness.CUDASum), 4); name != "library" {
			return fmt.Errorf("served by %q", name)
		}
		return errors.Join(err, m.Free())
	}))
	reasons := fmt.Sprint(j.Decided()[0].Decision.Answers[0].Verdict)
	if !strings.Contains(reasons, "P2P_UNREPORTED on rank 0") || !strings.Contains(reasons, "makes no window of symmetric memory") {
		t.Errorf("declined because of %s", reasons)
	}
}

// TestDeviceGroups has four ranks in overlapping groups, as tensor, pipeline and data parallelism have, all in use at once.
func TestDeviceGroups(t *testing.T) {
	j := harness.StartAgent(t, 4, nil, library(harness.FakeNCCL(t), "2.28.9"))
	harness.NoErrors(t, j.EachDevice(t, 4, func(s *rank.Session, d *ondevice.Program) error {
		r, n := s.World().Rank(), 500
		pair := []int{r &^ 1, r | 1}
		across := []int{r & 1, r&1 + 2}
		tp, err := s.NewGroup(t.Context(), pair)
		if err != nil {
			return err
		}
		pp, err := s.NewGroup(t.Context(), across)
		if err != nil {
			return err
		}
		groups := []*rank.Group{s.World(), tp, pp}
		streams := make([]cuda.Stream, len(groups))
		buffers := make([]cuda.Pointer, len(groups))
		for i := range groups {
			if streams[i], err = d.NewStream(); err == nil {
				buffers[i], err = d.Alloc(int64(4 * n))
			}
			if err != nil {
				return err
			}
		}
		for range 20 { // everything is enqueued before anything is waited for
			for i, g := range groups {
				d.Src, d.Dst = buffers[i], buffers[i]
				if err := d.Load(g, n); err != nil {
					return err
				}
				if err := rank.AllReduceDevice(g, uintptr(buffers[i]), uintptr(buffers[i]), int64(n), collective.Float32, collective.Sum, uintptr(streams[i])); err != nil {
					return fmt.Errorf("group %d: %w", i, err)
				}
			}
			for i, g := range groups {
				d.Stream = streams[i]
				if err := d.Check(g, buffers[i], n); err != nil {
					return fmt.Errorf("group %d: %w", i, err)
				}
			}
		}
		return nil
	}))
}
