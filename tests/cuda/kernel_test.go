package cuda

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// TestDeviceKernels has several ranks in one process, with buffers in either memory: eager calls, graphs, both in turns, and a
// graph that outlives its group.
func TestDeviceKernels(t *testing.T) {
	for _, world := range []int{1, 2, 4} {
		for _, memory := range []plan.BufferMemory{plan.DeviceBuffer, plan.HostBuffer} {
			t.Run(fmt.Sprintf("%d %s", world, memory), func(t *testing.T) {
				j := harness.StartAgent(t, world, nil, harness.Kernels(t, "right", func(p *plan.Kernel) { p.Buffer = memory }))
				harness.NoErrors(t, j.EachDevice(t, world, func(s *rank.Session, d *ondevice.Program) error {
					g, n := s.World(), 1000
					if err := g.Warm(t.Context(), harness.CUDASum, harness.CapturedSum); err != nil {
						return err
					}
					if err := g.Barrier(t.Context()); err != nil {
						return err
					}
					x, kinds, err := d.CaptureLocal(func() error { return errors.Join(d.Sum(g, d.Dst, d.Src, n), d.Sum(g, d.Src, d.Src, n)) })
					if err != nil || !slices.Equal(kinds, []int{0, 0}) {
						return fmt.Errorf("nodes %v: %w", kinds, err)
					}
					if err := g.Barrier(t.Context()); err != nil { // see TestDeviceKernelGraphLate
						return err
					}
					for i := range 5 {
						err := errors.Join(d.Once(g, 10+100*i), d.Sum(g, d.Src, d.Src, 10), d.Check(g, d.Src, 10),
							d.Load(g, n), d.Launch(x, d.Stream), d.Check(g, d.Dst, n), d.Check(g, d.Src, n))
						if err != nil {
							return err
						}
					}
					if err := errors.Join(g.Barrier(t.Context()), g.Close(), d.Load(g, n), d.Launch(x, d.Stream), d.Check(g, d.Dst, n)); err != nil {
						return fmt.Errorf("after Close: %w", err)
					}
					return d.DestroyExec(x)
				}))
			})
		}
	}
}

// TestDeviceKernelFaults are kernels that are found out in the ranks' own self-test.
func TestDeviceKernelFaults(t *testing.T) {
	for name, c := range map[string]struct {
		image  string
		change func(*plan.Kernel)
		words  []string
	}{
		"wrong sum":      {"wrong", nil, []string{"no backend serves", "SELFTEST_FAILED on rank 1 (self-test: rank 1 of 2, float32 sum, 4 bytes out of place: element 0 is"}},
		"no function":    {"right", func(p *plan.Kernel) { p.Launches[0].Function = "nothing" }, []string{"no backend serves", "SYMBOL_MISSING on rank 0 (the image has no function nothing)"}},
		"a newer driver": {"right", func(p *plan.Kernel) { p.MinDriver = "99.0" }, []string{"no backend serves", "VERSION on rank 0 (the driver serves CUDA 13.0, the kernels need 99.0 or newer)"}},
		"deaf":           {"right", func(p *plan.Kernel) { p.PollsAbort = false }, []string{"no backend serves", "PLAN_REJECTED", "group.unabortable_kernels allows it"}},
		"no row":         {"right", func(p *plan.Kernel) { p.Launches[0].Max = 100 }, []string{"no backend serves", "SELFTEST_FAILED", "no row for float32"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := harness.StartAgent(t, 2, nil, harness.Kernels(t, c.image, c.change))
			harness.WantErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
				err := d.Sum(s.World(), d.Dst, d.Src, 100)
				return errors.Join(err, d.Usable())
			}), c.words...)
		})
	}
}

// TestDeviceKernelInFlight has two ranks put a graph and eager calls on two streams in opposite orders, each of which would
// wait for the other for ever: an error on every rank, no hang, and the device and the process are good for another group.
func TestDeviceKernelInFlight(t *testing.T) {
	j := harness.StartAgent(t, 2, func(o *agent.Options) { o.CallDeadline = 2 * deadline }, harness.Kernels(t, "right", nil))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g, err := s.NewGroup(t.Context(), []int{0, 1})
		if err != nil {
			return err
		}
		if err := errors.Join(g.Warm(t.Context(), harness.CUDASum, harness.CapturedSum), g.Barrier(t.Context())); err != nil {
			return err
		}
		x, _, err := d.CaptureLocal(func() error { return d.Sum(g, d.Src, d.Src, 100) })
		if err != nil {
			return err
		}
		other, err := d.NewStream()
		if err != nil {
			return err
		}
		if err := g.Barrier(t.Context()); err != nil {
			return err
		}
		if g.Rank() == 0 {
			mark := d.Dst + ondevice.Bytes/2 // what comes before the graph on its stream; otherwise the call may begin first, and all is well
			err = errors.Join(d.Fill(mark, 0, 1), d.FillAsync(mark, 7, 1, other), d.Launch(x, other))
			for seen := []byte{0}; err == nil && seen[0] != 7; {
				err = d.ToHost(seen, mark)
			}
			time.Sleep(await.For(50 * time.Millisecond)) // nothing outside the device tells that it runs; either outcome below is one
			err = errors.Join(err, d.Sum(g, d.Dst, d.Dst, 50))
		} else {
			err = d.Sum(g, d.Dst, d.Dst, 50)
			time.Sleep(await.For(100 * time.Millisecond))
			err = errors.Join(err, d.Launch(x, other))
		}
		var failed *rank.GroupError
		if err != nil && !errors.As(err, &failed) {
			return err
		}
		why := ondevice.AwaitFailure(g)
		if why == nil || !strings.Contains(why.Error(), "IN_FLIGHT: another call or graph of this group was still running") && !strings.Contains(why.Error(), "on the device for "+(2*deadline).String()) {
			return fmt.Errorf("the group ended with %w", why)
		}
		if err := errors.Join(d.SynchronizeStream(d.Stream), d.SynchronizeStream(other), d.DestroyExec(x), d.Usable()); err != nil {
			return err
		}
		return d.Once(s.World(), 100)
	}))
}

// TestDeviceKernelBreaksContext has a kernel break the context of one rank after the group was decided: the end of the group on
// every rank, and no decline.
func TestDeviceKernelBreaksContext(t *testing.T) {
	for image, words := range map[string]string{"crash": "rank 1: kernels: self-test: ", "late-crash": "rank 1: "} {
		t.Run(image, func(t *testing.T) {
			for r, text := range startKernelRanks(t, 2, "none", harness.Kernels(t, image, nil)) {
				if !strings.Contains(text, words) || !strings.Contains(text, "has failed") || strings.Contains(text, "no backend serves") ||
					!strings.Contains(text, "CUDA_ERROR_ILLEGAL_ADDRESS") {
					t.Errorf("rank %d: %s", r, text)
				}
			}
		})
	}
}

// TestDeviceKernelRankLost ends a rank's process in the middle of calls that push into its memory.
func TestDeviceKernelRankLost(t *testing.T) {
	for fault, words := range map[string]string{
		"kill":  "has ended without having left the group; it began all-reduce",
		"leave": "rank 1 has left",
	} {
		t.Run(fault, func(t *testing.T) {
			texts := startKernelRanks(t, 3, fault, harness.Kernels(t, "right", nil))
			for _, r := range []int{0, 2} {
				if text := texts[r]; !strings.Contains(text, words) || !strings.Contains(text, "the device is usable") {
					t.Errorf("rank %d: %s, want %q", r, text, words)
				}
			}
		})
	}
}

// startKernelRanks runs devicerank as every rank of a job and returns what each wrote.
func startKernelRanks(t *testing.T, world int, fault string, c dispatch.Candidate) []string {
	t.Helper()
	return harness.StartAgent(t, world, func(o *agent.Options) { o.CallDeadline = await.For(10 * time.Second) }, c).DeviceProcesses(t, world, "devicerank", fault, "sum")
}

// TestDeviceKernelReplayAlone has a rank wait in a replay for one that does not come, which no call shows: the error names it,
// and the replay ends with NaN.
func TestDeviceKernelReplayAlone(t *testing.T) {
	j := harness.StartAgent(t, 2, func(o *agent.Options) { o.CallDeadline = deadline }, harness.Kernels(t, "right", nil))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		if err := errors.Join(g.Warm(t.Context(), harness.CapturedSum), g.Barrier(t.Context())); err != nil {
			return err
		}
		x, _, err := d.CaptureLocal(func() error { return d.Sum(g, d.Dst, d.Src, 100) })
		if err != nil {
			return err
		}
		if err := errors.Join(d.Load(g, 100), d.Launch(x, d.Stream), d.Check(g, d.Dst, 100), g.Barrier(t.Context())); err != nil {
			return err
		}
		if g.Rank() == 0 {
			err = d.Launch(x, d.Stream)
		}
		why := ondevice.AwaitFailure(g)
		if err != nil || why == nil || !strings.Contains(why.Error(), "rank 0: waited for rank 1 on the device for "+deadline.String()) {
			return errors.Join(err, fmt.Errorf("the group ended with %w", why))
		}
		got := make([]float32, 1)
		err = errors.Join(d.SynchronizeStream(d.Stream), d.ToHost(ondevice.Raw(got), d.Dst))
		if g.Rank() == 0 && !math.IsNaN(float64(got[0])) {
			err = errors.Join(err, fmt.Errorf("the replay ended with %v", got[0]))
		}
		return errors.Join(err, d.DestroyExec(x), d.Usable())
	}))
}
