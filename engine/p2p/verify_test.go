package p2p_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/fakegpu"
)

const asWorker = "p2p-worker"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asWorker {
		if err := p2p.Serve(os.NewFile(3, "socket")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// machine is n fake GPUs, and how to prove that they reach each other. env is added to the workers' environment.
func machine(t *testing.T, n int, env ...string) ([]topology.Device, p2p.Options) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	driver := fakegpu.CUDA(t)
	devices := lo.Times(n, func(i int) topology.Device {
		return topology.Device{Index: i, PCIBusID: fmt.Sprintf("0000:%02x:00.0", 0x10+i)}
	})
	return devices, p2p.Options{
		Command: []string{exe, asWorker},
		Environ: append([]string{"LD_LIBRARY_PATH=" + filepath.Dir(driver), fmt.Sprintf("FAKE_CUDA_DEVICES=%d", n)}, env...),
	}
}

// say writes results, one a line.
func say(results []p2p.Result) string {
	return strings.Join(lo.Map(results, func(r p2p.Result, _ int) string {
		return strings.TrimSpace(fmt.Sprintf("%d>%d %s %s", r.From, r.To, r.Found, r.Why))
	}), "\n")
}

// TestVerify has good access between all, and says so of every direction.
func TestVerify(t *testing.T) {
	devices, opts := machine(t, 3)
	var steps, started, ended atomic.Int32
	opts.Progress = func(int, int) { steps.Add(1) }
	opts.Started, opts.Ended = func(int) { started.Add(1) }, func(int) { ended.Add(1) }
	got := p2p.Verify(t.Context(), devices, p2p.Directions(3), opts)
	want := "0>1 verified\n0>2 verified\n1>0 verified\n1>2 verified\n2>0 verified\n2>1 verified"
	if say(got) != want {
		t.Errorf("got\n%s\nwant\n%s", say(got), want)
	}
	if steps.Load() != 6 || started.Load() != 3 || ended.Load() != 3 {
		t.Errorf("%d steps, %d processes started and %d ended, want 6, 3, 3", steps.Load(), started.Load(), ended.Load())
	}
	if p, ok := got[1].Proof(devices); !ok || p != (topology.Proof{From: "0000:10:00.0", To: "0000:12:00.0", Result: topology.P2PVerified}) {
		t.Errorf("proof %+v, %v", p, ok)
	}
}

// TestVerifyFaults has one direction of two GPUs go wrong, in the ways that it does on real machines; the other is proved all
// the same.
func TestVerifyFaults(t *testing.T) {
	const never = "the flag never came; 4088 of 4096 B had arrived (a kernel's stores of 4 KiB)"
	for fault, want := range map[string]string{
		"wrong":  "0>1 failed wrong data: 1 of 4096 B, the first at offset 2048, where ",
		"never":  "0>1 failed " + never,
		"map":    "0>1 failed GPU0 could not map the memory of GPU1: cuMemSetAccess: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)",
		"hang":   "0>1 failed GPU0 could not write: not done in time",
		"exit":   "0>1 failed GPU0 could not write: the process ended (exit status 9): the fake device 0 ends its process",
		"refuse": "0>1 none cuDeviceCanAccessPeer says no",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			devices, opts := machine(t, 2, "FAKE_P2P="+fault+":0>1")
			opts.Direction, opts.Patience = await.For(3*time.Second), await.For(300*time.Millisecond)
			got := say(p2p.Verify(t.Context(), devices, p2p.Directions(2), opts))
			if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n1>0 verified") {
				t.Errorf("got\n%s\nwant\n%s…\n1>0 verified", got, want)
			}
		})
	}
}

var words = regexp.MustCompile(`^wrong data: 1 of 4096 B, the first at offset 2048, where ([0-9a-f]{16}) was written and ([0-9a-f]{16}) was read \(a kernel's stores of 4 KiB\)$`)

// TestVerifyBothWrong says what was read where something else was written.
func TestVerifyBothWrong(t *testing.T) {
	devices, opts := machine(t, 2, "FAKE_P2P=wrong:0>1,wrong:1>0")
	for _, r := range p2p.Verify(t.Context(), devices, p2p.Directions(2), opts) {
		m := words.FindStringSubmatch(r.Why)
		if r.Found != topology.P2PFailed || m == nil || m[1] == m[2] || m[1][2:] != m[2][2:] {
			t.Errorf("%+v", r)
		}
	}
}

// TestVerifyNoDriver cannot try anything, and says why.
func TestVerifyNoDriver(t *testing.T) {
	for name, c := range map[string]struct{ env, want string }{
		"no device": {"FAKE_CUDA_INIT=100", "0>1 unknown GPU1: cuInit: CUDA_ERROR_NO_DEVICE (100)"},
		"hidden":    {"FAKE_CUDA_DEVICES=1", "0>1 unknown GPU1: no device \"0000:11:00.0\": this process may use 0 "},
		"no driver": {"LD_LIBRARY_PATH=", "0>1 unknown GPU1: libcuda.so.1: cannot open shared object file"},
	} {
		t.Run(name, func(t *testing.T) {
			devices, opts := machine(t, 2, c.env)
			got := p2p.Verify(t.Context(), devices, p2p.Directions(2), opts)
			if !strings.HasPrefix(say(got), c.want) {
				t.Errorf("got\n%s\nwant\n%s…", say(got), c.want)
			}
			if _, ok := got[0].Proof(devices); ok {
				t.Error("what could not be tried is a proof")
			}
		})
	}
}

// TestVerifyEnds keeps to its deadlines and to the context, though a worker hangs; nothing that was cut short is a failure.
func TestVerifyEnds(t *testing.T) {
	devices, opts := machine(t, 2, "FAKE_P2P=hang:0>1,hang:1>0")
	opts.Overall = await.Lapse(1500 * time.Millisecond)
	begin := time.Now()
	got := say(p2p.Verify(t.Context(), devices, p2p.Directions(2), opts))
	if want := "0>1 unknown not tried: all directions together may take 1.5s\n1>0 unknown not tried: all directions together may take 1.5s"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(await.Lapse(time.Second), cancel)
	got = say(p2p.Verify(ctx, devices, p2p.Directions(2), p2p.Options{Command: opts.Command, Environ: opts.Environ}))
	if want := "0>1 unknown not tried: interrupted\n1>0 unknown not tried: interrupted"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if took := time.Since(begin); took > await.For(15*time.Second) {
		t.Errorf("took %s", took)
	}
}

// TestVerifyNoProgram is a program that is not there, or is something else.
func TestVerifyNoProgram(t *testing.T) {
	devices, opts := machine(t, 2)
	for command, want := range map[string]string{
		"/nowhere/weir": "start /nowhere/weir: ",
		"false":         "the process ended (exit status 1)",
	} {
		opts.Command = []string{command}
		if got := p2p.Verify(t.Context(), devices, p2p.Directions(2)[:1], opts); got[0].Found != topology.P2PUnknown || !strings.Contains(got[0].Why, want) {
			t.Errorf("%s: %+v", command, got[0])
		}
	}
}
