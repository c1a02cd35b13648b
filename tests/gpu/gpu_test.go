// Package gpu holds the tests that need a GPU; built as one binary they run on a machine without Go (./task test:gpu).
package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

// envScenario is set in the processes that are ranks: which scenario they run.
const envScenario = "WEIR_GPU_SCENARIO"

func TestMain(m *testing.M) {
	// Streams beyond the number of connections to the device wait for one another. Ranks of one process must not: each has one
	// for its calls and one for self-tests.
	_ = os.Setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
	name := os.Getenv(envScenario)
	if name == "" {
		os.Exit(m.Run())
	}
	if name == "victim" {
		awaitTurn()
	}
	work := func() error { return asRank(scenarios[name]) }
	if name == p2pWorker {
		work = func() error { return p2p.Serve(os.NewFile(3, "socket")) }
	}
	if err := work(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", err)
		os.Exit(1)
	}
}

func asRank(body func(*rank.Session, *ondevice.Program) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), await.For(time.Minute))
	defer cancel()
	s, err := rank.Join(ctx, rank.Options{Device: rank.DeviceAuto})
	if err != nil {
		return err
	}
	p, err := ondevice.Open(s.World())
	if err != nil {
		return err
	}
	return errors.Join(body(s, p), s.Close())
}

// devices is how many GPUs there are; without one the test skips.
func devices(t *testing.T) int {
	t.Helper()
	d, err := cuda.Open()
	if err == nil {
		err = d.Init()
	}
	if err != nil {
		require.Missing(t, "gpu", err.Error())
	}
	all, err := d.Devices()
	if err != nil || len(all) == 0 {
		require.Missing(t, "gpu", fmt.Sprintf("%d devices, error %v", len(all), err))
	}
	return len(all)
}

// findNCCL is the machine's NCCL: WEIR_NCCL, the loader's, or the one of a Python package.
func findNCCL(t *testing.T) *plan.Library {
	t.Helper()
	places := []string{nccl.LibraryName}
	if own := os.Getenv("WEIR_NCCL"); own != "" {
		places = []string{own}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(python)), "lib", "python3*", "*-packages", "nvidia", "nccl", "lib", nccl.LibraryName))
		places = append(places, found...)
	}
	lib, err := dl.Open(places...)
	if err != nil {
		require.Missing(t, "nccl", err.Error())
	}
	version, err := nccl.Version(lib)
	if err != nil {
		t.Fatal(err)
	}
	return &plan.Library{Path: lib.Path(), Version: version, Variant: "nccl"}
}

// library is a backend whose plan is a library.
type library struct {
	plan plan.Library
	info backend.Info
}

func (l library) Info() backend.Info { return l.info }

func (l library) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

func (l library) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &l.plan, nil
}

func (l library) Release(context.Context, string) error { return nil }

// candidates are NCCL for all calls and, before it, NCCL for registered memory.
func candidates(p plan.Library) []dispatch.Candidate {
	all := library{p, backend.Info{Name: "nccl", Kind: plan.LibraryKind, Priority: -1}}
	p.Variant = "nccl-symm"
	registered := library{p, backend.Info{Name: "nccl-symm", Kind: plan.LibraryKind, Requirements: backend.Requirements{Registered: true}}}
	return []dispatch.Candidate{
		{Plugin: "test", Info: registered.info, Backend: registered},
		{Plugin: "test", Info: all.info, Backend: all},
	}
}

// output is what the ranks of a job wrote, by rank, and what the agent logged and decided.
type output struct {
	ranks   []string
	log     string
	decided []agent.Resolved
}

// ranks runs a scenario as every rank of a job, each a process, on as many GPUs as there are.
func ranks(t *testing.T, world int, scenario string, env ...string) output {
	t.Helper()
	return ranksWith(t, world, candidates(*findNCCL(t)), scenario, env...)
}

// ranksWith is ranks with other backends than NCCL.
func ranksWith(t *testing.T, world int, c []dispatch.Candidate, scenario string, env ...string) output {
	t.Helper()
	dir, err := os.MkdirTemp("", "wg")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var log bytes.Buffer
	out := output{ranks: make([]string, world)}
	a := startAgent(t, dir, world, c, &log, func(r agent.Resolved) { out.decided = append(out.decided, r) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.For(100*time.Second))
			defer cancel()
			c := exec.CommandContext(ctx, exe)
			c.Env = append(append(os.Environ(), env...), envScenario+"="+scenario, rank.EnvSocket+"="+a.Socket(),
				fmt.Sprintf("%s=%d", rank.EnvRank, r), fmt.Sprintf("%s=%d", rank.EnvWorldSize, world))
			text, err := c.CombinedOutput()
			out.ranks[r] = string(text)
			if err != nil {
				out.ranks[r] += fmt.Sprintf("(%s)", err)
			}
			a.RankExited(r, fmt.Sprintf("rank %d has ended", r))
		})
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	out.log = log.String()
	return out
}

// proved is what machine found.
var proved struct {
	sync.Once
	graph topology.Graph
}

// machine is this one, where every two GPUs that the driver says to reach each other were made to prove it, once for all tests.
func machine(t *testing.T) topology.Graph {
	t.Helper()
	proved.Do(func() {
		proved.graph = discover.Live()
		if len(proved.graph.Devices) < 2 {
			return
		}
		proofs := lo.FilterMap(proveAmong(t, proved.graph.Devices), func(r p2p.Result, _ int) (topology.Proof, bool) {
			return r.Proof(proved.graph.Devices)
		})
		proved.graph = proved.graph.WithProofs(proofs)
	})
	return proved.graph
}

// startAgent is an agent for ranks that may share devices.
func startAgent(t *testing.T, dir string, world int, c []dispatch.Candidate, log io.Writer, decided func(agent.Resolved)) *agent.Agent {
	t.Helper()
	a, err := agent.Listen(agent.Options{
		Socket: filepath.Join(dir, "agent.sock"), WorldSize: world, Candidates: func() []dispatch.Candidate { return c }, MaxShared: 1 << 30, ShareDevices: true,
		JoinDeadline: await.For(30 * time.Second), CallDeadline: await.For(5 * time.Second), PrepareDeadline: await.For(30 * time.Second), SelfTestDeadline: await.For(30 * time.Second),
		Topology: machine(t),
		Tracer:   telemetry.NewTracer(noop.NewTracerProvider()), Logger: slog.New(slog.NewTextHandler(log, nil)),
		Decided: decided,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// quiet wants ranks that had nothing to complain of.
func (o output) quiet(t *testing.T) {
	t.Helper()
	for r, text := range o.ranks {
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "# ") {
			t.Errorf("rank %d: %s", r, text)
		}
	}
	if t.Failed() {
		t.Log(o.log)
	}
}

// contains wants every word of each rank that is named.
func (o output) contains(t *testing.T, ranks []int, words ...string) {
	t.Helper()
	for _, r := range ranks {
		for _, w := range words {
			if !strings.Contains(o.ranks[r], w) {
				t.Errorf("rank %d wrote %q, want %q", r, o.ranks[r], w)
			}
		}
	}
	if t.Failed() {
		t.Log(o.log)
	}
}
