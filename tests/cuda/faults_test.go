package cuda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// deadline is what the tests here see pass, and who is well keeps to.
var deadline = await.For(time.Second).Round(100 * time.Millisecond)

// TestDeviceLibraryFaults are libraries that do not do what they should while a plan is prepared and tried.
func TestDeviceLibraryFaults(t *testing.T) {
	for name, c := range map[string]struct {
		variable, value string
		words           []string // in every rank's error
	}{
		"no communicator":            {"FAKE_NCCL_FAIL", "ncclCommInitRank:2", []string{"INIT_FAILED on rank 0", "INIT_FAILED on rank 1", "ncclSystemError (2), unhandled system error, ncclCommInitRank fails on request"}},
		"no communicator on one":     {"FAKE_NCCL_FAIL", "ncclCommInitRank:2:1", []string{"TIMEOUT on rank 0", "INIT_FAILED on rank 1"}},
		"no unique id":               {"FAKE_NCCL_FAIL", "ncclGetUniqueId:3", []string{"INIT_FAILED on rank 0 (ncclGetUniqueId: ncclInternalError (3)"}},
		"a communicator never comes": {"FAKE_NCCL_HANG", "ncclCommInitRank:1", []string{"TIMEOUT on rank 1", "did not make its communicator within " + deadline.String()}},
		"a call never returns":       {"FAKE_NCCL_HANG", "ncclAllReduce:1", []string{"SELFTEST_FAILED on rank 0", "SELFTEST_FAILED on rank 1", "did not finish the self-test within"}},
		"a call fails":               {"FAKE_NCCL_FAIL", "ncclAllReduce:5", []string{"SELFTEST_FAILED on rank 1", "ncclInvalidUsage (5), invalid usage, ncclAllReduce fails on request"}},
		"a wrong sum":                {"FAKE_NCCL_WRONG", "1", []string{"SELFTEST_FAILED on rank 1 (self-test: rank 1 of 2, float32 sum, 4 bytes out of place: element 0 is"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			j := harness.StartAgent(t, 2, func(o *agent.Options) { o.PrepareDeadline, o.SelfTestDeadline = deadline, deadline }, library(harness.FakeNCCL(t), "2.28.9"))
			harness.WantErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
				err := d.Sum(s.World(), d.Dst, d.Src, 100)
				return errors.Join(err, d.Usable())
			}), append(c.words, "no backend serves cuda float32 sum eager")...)
		})
	}
}

// TestDeviceTooLittleMemory has room for the program's buffers and not for those of the self-test. In processes of its own: in this one
// libraries that hang since tests before hold some, on one device more than on the other.
func TestDeviceTooLittleMemory(t *testing.T) {
	t.Setenv("FAKE_CUDA_MEMORY", fmt.Sprint(3*ondevice.Bytes))
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"))
	for r, text := range j.DeviceProcesses(t, 2, "devicedesync", "none") {
		for _, want := range []string{"SELFTEST_FAILED on rank 0", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory"} {
			if !strings.Contains(text, want) {
				t.Errorf("rank %d: %s; want %q", r, text, want)
			}
		}
		if strings.Contains(text, "not usable") {
			t.Errorf("rank %d: %s", r, text)
		}
	}
}

// TestDeviceErrorAfterTheCall is one that the library reports when the call has returned: the group fails on every rank,
// which is found without a call and without waiting for the device.
func TestDeviceErrorAfterTheCall(t *testing.T) {
	t.Setenv("FAKE_NCCL_ASYNC", "6:1")
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"))
	harness.WantErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		for range 120 {
			if err := d.Sum(g, d.Dst, d.Src, 100); err != nil {
				break // the first rank to know tells the other
			}
		}
		_ = ondevice.AwaitFailure(g)
		if err := d.Sum(g, d.Dst, d.Src, 100); !errors.Is(err, g.Err()) {
			return fmt.Errorf("a later call: %v", err)
		}
		return errors.Join(g.Err(), d.SynchronizeStream(d.Stream), d.Usable())
	}), "group g1 has failed: rank 1: ", "libnccl.so.2: asynchronous error: ncclRemoteError (6), remote process exited or there was a network error")
}

// TestDeviceBadArguments are calls that a rank refuses. Where all ranks do, the group goes on.
func TestDeviceBadArguments(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		if err := g.Warm(t.Context(), harness.CUDASum); err != nil {
			return err
		}
		other := (g.Rank() + 1) % 2
		foreign, err := d.Retain(other)
		if err != nil {
			return err
		}
		var elsewhere cuda.Stream
		var there cuda.Pointer
		err = d.In(foreign, func() (err error) {
			elsewhere, err = d.NewStream()
			if err == nil {
				there, err = d.Alloc(1024)
			}
			return err
		})
		if err != nil {
			return err
		}
		pinned, err := d.AllocHost(1024)
		if err != nil {
			return err
		}
		calls := append(
			d.BadCalls(pinned),
			ondevice.BadCall{Name: "another device's", Dst: there, Src: d.Src, Count: 100, Stream: d.Stream, Words: fmt.Sprintf("is memory of device %d, this rank joined with device %d", other, g.Rank())},
			ondevice.BadCall{Name: "another's stream", Dst: d.Dst, Src: d.Src, Count: 100, Stream: elsewhere, Words: "the stream belongs to another context"},
		)
		if err := ondevice.Refuse(g, calls, func() error { return g.Barrier(t.Context()) }); err != nil {
			return err
		}
		return errors.Join(g.Barrier(t.Context()), g.Err(), d.Load(g, 100), d.Sum(g, d.Dst, d.Src, 100), d.Check(g, d.Dst, 100), d.Usable())
	}))
}

// TestDeviceRanksDisagree has rank 1 do something else than rank 0: both learn who did what, and nothing hangs.
func TestDeviceRanksDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		second func(g *rank.Group, d *ondevice.Program) error
		words  []string
	}{
		"size":    {func(g *rank.Group, d *ondevice.Program) error { return d.Sum(g, d.Dst, d.Src, 50) }, []string{"ranks disagree about all-reduce 1: rank 0: all-reduce 1 of 400 bytes", "rank 1: all-reduce 1 of 200 bytes"}},
		"refused": {func(g *rank.Group, d *ondevice.Program) error { _ = d.Sum(g, d.Dst, 0, 100); return nil }, []string{"ranks disagree about all-reduce 1", "rank 1: all-reduce 1 with arguments that it refused"}},
		"absent":  {func(*rank.Group, *ondevice.Program) error { return nil }, []string{"rank 1 did not begin all-reduce 1 within " + deadline.String() + ": last, rank 1 began no all-reduce yet"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := harness.StartAgent(t, 2, func(o *agent.Options) { o.CallDeadline = deadline }, library(harness.FakeNCCL(t), "2.28.9"))
			harness.WantErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
				g := s.World()
				if err := g.Warm(t.Context(), harness.CUDASum); err != nil {
					return err
				}
				if g.Rank() == 0 {
					_ = d.Sum(g, d.Dst, d.Src, 100) // enqueued, or failed already
				} else {
					_ = c.second(g, d)
				}
				_ = ondevice.AwaitFailure(g)
				return errors.Join(g.Err(), d.SynchronizeStream(d.Stream), d.Usable())
			}), c.words...)
		})
	}
}

// TestDeviceAndHost has calls on both kinds of memory in one group, in turns.
func TestDeviceAndHost(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, library(harness.FakeNCCL(t), "2.28.9"), onHost("flat"))
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		for range 3 {
			if err := errors.Join(harness.SumIsRight(g, 100), d.Load(g, 100), d.Sum(g, d.Dst, d.Src, 100), d.Check(g, d.Dst, 100)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestDeviceWithout has ranks that joined without a device call as if they had one.
func TestDeviceWithout(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, library("/nowhere/libnccl.so.2", "2.28.9"))
	harness.WantErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		return rank.AllReduceDevice(s.World(), 8, 16, 1, collective.Float32, collective.Sum, 0)
	}), "this rank joined without a device; name one in rank.Options.Device or WEIR_DEVICE")
	harness.WantErrors(t, j.Each(t, 2, func(s *rank.Session) error { return s.World().Warm(t.Context(), harness.CUDASum) }), "joined without a device")
}

// TestDeviceNoSuch joins with devices that are not there.
func TestDeviceNoSuch(t *testing.T) {
	harness.FakeGPUs(t, 2)
	for name, want := range map[string]string{"2": "device 2 is out of range: this process may use devices 0 to 1", "GPU-zz": `no device "GPU-zz"`} {
		_, err := rank.Join(t.Context(), rank.Options{Socket: "/nowhere", Rank: 0, WorldSize: 1, Device: name})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	t.Setenv("FAKE_CUDA_INIT", "100")
	_, err := rank.Join(t.Context(), rank.Options{Socket: "/nowhere", Rank: 0, WorldSize: 1, Device: "0"})
	if err == nil || !strings.Contains(err.Error(), "cuInit: CUDA_ERROR_NO_DEVICE (100)") {
		t.Errorf("a driver that does not start: %v", err)
	}
}

// TestDeviceRankLost ends a rank's process in the middle of calls that peers have enqueued: they are told, and their streams
// come to an end.
func TestDeviceRankLost(t *testing.T) {
	for fault, words := range map[string]string{
		"kill":  "has ended without having left the group; it began all-reduce",
		"exit":  "has ended without having left the group; it began all-reduce",
		"leave": "rank 1 has left",
		"stuck": "rank 1 began all-reduce 201 and did not finish its part within " + deadline.String(), // as one that was stopped there
	} {
		t.Run(fault, func(t *testing.T) {
			errs := startDeviceRanks(t, 3, fault)
			for _, r := range []int{0, 2} {
				if text := errs[r]; !strings.Contains(text, words) || !strings.Contains(text, "the device is usable") {
					t.Errorf("rank %d: %s, want %q", r, text, words)
				}
			}
		})
	}
}

// startDeviceRanks runs devicerank as every rank of a job and returns what each wrote on standard error.
func startDeviceRanks(t *testing.T, world int, fault string) []string {
	t.Helper()
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.CallDeadline = deadline }, library(harness.FakeNCCL(t), "2.28.9"))
	return j.DeviceProcesses(t, world, "devicerank", fault)
}

// slowMax answers about the op max after longer than the deadline of a call.
type slowMax struct {
	backend.Backend
	takes time.Duration
}

func (b slowMax) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	if req.Class.Op == collective.Max {
		time.Sleep(b.takes)
	}
	return b.Backend.Accept(ctx, req)
}

// TestDeviceSlowDecision: ranks that wait for a decision are inside their calls for longer than a call may take; none of them is late.
func TestDeviceSlowDecision(t *testing.T) {
	c := library(harness.FakeNCCL(t), "2.28.9")
	limit := await.For(300 * time.Millisecond)
	c.Backend = slowMax{c.Backend, 4 * limit}
	j := harness.StartAgent(t, 2, func(o *agent.Options) { o.CallDeadline = limit }, c)
	harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		if err := d.Sum(g, d.Dst, d.Src, 100); err != nil {
			return err
		}
		err := rank.AllReduceDevice(g, uintptr(d.Dst), uintptr(d.Src), 100, collective.Float32, collective.Max, uintptr(d.Stream))
		return errors.Join(err, d.SynchronizeStream(d.Stream), g.Err())
	}))
}
