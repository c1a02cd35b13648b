package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/ondevice"
)

// The request classes of sums of float32 on devices.
var (
	CUDASum     = collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	CapturedSum = collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum, Captured: true}
)

// DeviceProcesses runs a program as every rank of a job, with a driver and a device for each, and returns what each wrote.
func (j *Job) DeviceProcesses(t *testing.T, world int, program string, args ...string) []string {
	t.Helper()
	texts := make([]string, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.For(time.Minute))
			defer cancel()
			c := exec.CommandContext(ctx, filepath.Join(Bin, "programs", program), args...)
			c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+FakeLibraries(t), fmt.Sprintf("FAKE_CUDA_DEVICES=%d", world),
				rank.EnvSocket+"="+j.Agent.Socket(), fmt.Sprintf("%s=%d", rank.EnvRank, r), fmt.Sprintf("%s=%d", rank.EnvWorldSize, world))
			out, err := c.CombinedOutput()
			texts[r] = fmt.Sprintf("%s (%v)", out, err)
		})
	}
	wg.Wait()
	return texts
}

// Kernels is a backend whose plan is one of FakeKernels.
func Kernels(t testing.TB, image string, change func(*plan.Kernel)) dispatch.Candidate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(FakeKernels(t), image))
	if err != nil {
		t.Fatal(err)
	}
	const most = fakegpu.KernelBytes / 16
	f := &Fake{
		Plans: func(world int) (plan.Plan, error) {
			p := &plan.Kernel{
				Image: text, BufferBytes: fakegpu.KernelBytes, Buffer: plan.DeviceBuffer, PollsAbort: true,
				Launches: []plan.Launch{{DataType: "float32", Min: 1, Max: most, Function: "sum_f32", Grid: 2, Block: 32}},
			}
			if change != nil {
				change(p)
			}
			return p, nil
		},
		Accepts: func() (backend.Verdict, error) {
			return backend.Accepted(backend.Range{Min: 4, Max: most / 4, Multiple: 4}), nil
		},
	}
	f.Says = backend.Info{Name: "kernels", Kind: plan.KernelKind, Requirements: backend.Requirements{
		Memories: []collective.Memory{collective.CUDA}, DataTypes: []collective.DataType{collective.Float32}, Ops: []collective.Op{collective.Sum},
	}}
	return dispatch.Candidate{Plugin: "test", Info: f.Says, Backend: f}
}

// FakeGPUs gives this process a driver with n devices; the loader takes it for every later request of libcuda.so.1.
func FakeGPUs(t testing.TB, n int) *cuda.API {
	t.Helper()
	t.Setenv("FAKE_CUDA_DEVICES", fmt.Sprint(n))
	lib, err := dl.Open(filepath.Join(FakeLibraries(t), "libcuda.so.1"))
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

// EachDevice is Each with a device for every rank: its number modulo that of the devices.
func (j *Job) EachDevice(t *testing.T, world int, f func(s *rank.Session, d *ondevice.Program) error) []error {
	t.Helper()
	a := FakeGPUs(t, world)
	errs := make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.For(30*time.Second))
			defer cancel()
			s, err := rank.Join(ctx, rank.Options{Socket: j.Agent.Socket(), Rank: r, WorldSize: world, Device: rank.DeviceAuto})
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
