package cuda

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// onOneDevice runs f as every rank of a job, all in this process and on one GPU.
func onOneDevice(t *testing.T, world int, change func(*agent.Options), f func(g *rank.Group, d *ondevice.Program) error) []error {
	t.Helper()
	a := harness.FakeGPUs(t, 1)
	j := harness.StartAgent(t, world, func(o *agent.Options) {
		o.ShareDevices = true
		if change != nil {
			change(o)
		}
	}, harness.Kernels(t, "right", nil))
	ctx, errs := await.Context(t, time.Minute), make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			s, err := rank.Join(ctx, rank.Options{Socket: j.Agent.Socket(), Rank: r, WorldSize: world, Device: "0"})
			if err != nil {
				errs[r] = err
				return
			}
			d, err := ondevice.New(a, 0)
			if err == nil {
				err = f(s.World(), d)
			}
			errs[r] = errors.Join(err, s.Close())
		})
	}
	wg.Wait()
	return errs
}

// TestDeviceKernelQueues: streams that share a queue of the driver wait for each other, so that ranks of one process on one GPU are
// declined where there are too few, and work where there are enough.
func TestDeviceKernelQueues(t *testing.T) {
	const world = 6
	t.Run("too few", func(t *testing.T) {
		t.Setenv("CUDA_DEVICE_MAX_CONNECTIONS", "")
		harness.WantErrors(t, onOneDevice(t, world, nil, func(g *rank.Group, _ *ondevice.Program) error { return g.Warm(t.Context(), harness.CUDASum) }),
			"INIT_FAILED", "6 ranks of one process are on one GPU, which has queues for 4: set CUDA_DEVICE_MAX_CONNECTIONS to 12 or more (it is 8) before CUDA starts")
	})
	t.Run("enough", func(t *testing.T) {
		t.Setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
		harness.NoErrors(t, onOneDevice(t, world, nil, func(g *rank.Group, d *ondevice.Program) error {
			if err := errors.Join(g.Warm(t.Context(), harness.CUDASum), d.Load(g, 100)); err != nil {
				return err
			}
			for range 20 { // behind each other on every rank's stream
				if err := d.Sum(g, d.Dst, d.Src, 100); err != nil {
					return err
				}
			}
			return errors.Join(d.Check(g, d.Dst, 100), g.Err())
		}))
	})
}

// TestDeviceKernelGraphLate: a driver that makes room for a graph waits for the whole device. Where another rank of the process has gone on
// to a call that waits for this one, neither comes further, and the deadline ends it with an error that says which call. With a
// barrier between making graphs and the next call all is well: see TestDeviceKernels.
func TestDeviceKernelGraphLate(t *testing.T) {
	called, deadline := make(chan int), await.For(2*time.Second)
	errs := onOneDevice(t, 2, func(o *agent.Options) { o.CallDeadline = deadline }, func(g *rank.Group, d *ondevice.Program) error {
		if err := errors.Join(g.Warm(t.Context(), harness.CUDASum, harness.CapturedSum), d.Load(g, 100), g.Barrier(t.Context())); err != nil {
			return err
		}
		if g.Rank() == 1 {
			t.Setenv("FAKE_CUDA_GRAPHS", "0") // from here on there is no room
		}
		_, _, err := d.CaptureLocal(func() error {
			err := errors.Join(d.Sum(g, d.Dst, d.Src, 100), d.Sum(g, d.Src, d.Src, 100))
			if g.Rank() == 1 {
				<-called
			}
			return err
		})
		if err == nil && g.Rank() == 0 {
			err = d.Sum(g, d.Dst, d.Src, 100)
			close(called)
		}
		if why := ondevice.AwaitFailure(g); why == nil || err != nil {
			return fmt.Errorf("the group ended with %w, %w", why, err)
		}
		return errors.Join(g.Err(), d.SynchronizeStream(d.Stream))
	})
	harness.WantErrors(t, errs, fmt.Sprintf("rank 1 did not begin all-reduce 3 within %s", deadline))
}
