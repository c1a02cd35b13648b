package gpu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

// What the tests of kernel plans take from the environment.
const (
	envPlugin  = "WEIR_GPU_PLUGIN"   // executable of a plugin with kernels; "": plugins/push beside the test's program, or in ../../bin
	envConfig  = "WEIR_GPU_SETTINGS" // its settings, as JSON
	envBackend = "WEIR_GPU_BACKENDS" // its backends to try, with commas between; "": all
	envKills   = "WEIR_GPU_KILLS"    // how many ranks TestKernelKilled kills
)

// kernelBackends are the backends with kernels of a plugin, by name.
func kernelBackends(t *testing.T) map[string]dispatch.Candidate {
	t.Helper()
	devices(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv(envPlugin)
	for _, p := range []string{filepath.Join(filepath.Dir(exe), "plugins", "push"), "../../bin/plugins/push"} {
		if _, err := os.Stat(p); path == "" && err == nil {
			path, _ = filepath.Abs(p)
		}
	}
	if path == "" {
		require.Missing(t, "kernels", "no plugin with kernels; "+envPlugin+" names one")
	}
	dir, err := os.MkdirTemp("", "wp")
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if text := os.Getenv(envConfig); text != "" {
		if err := json.Unmarshal([]byte(text), &settings); err != nil {
			t.Fatal(err)
		}
	}
	h, err := pluginhost.Start(t.Context(), []pluginhost.Spec{{Path: path, Settings: settings}}, pluginhost.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(); os.RemoveAll(dir) })
	wanted := strings.FieldsFunc(os.Getenv(envBackend), func(r rune) bool { return r == ',' })
	found := lo.Filter(h.Candidates(), func(c dispatch.Candidate, _ int) bool {
		return c.Info.Kind == plan.KernelKind && (len(wanted) == 0 || slices.Contains(wanted, c.Info.Name))
	})
	if len(found) == 0 {
		t.Fatalf("%s has no backends with kernels among %v", path, wanted)
	}
	return lo.KeyBy(found, func(c dispatch.Candidate) string { return c.Info.Name })
}

// virtual runs f as every rank of a group, all in this process and on device 0 but for spread, which gives each a device of its
// own as far as there are some.
func virtual(t *testing.T, world int, c dispatch.Candidate, spread bool, f func(s *rank.Session, p *ondevice.Program) error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wg")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var log bytes.Buffer
	a := startAgent(t, dir, world, []dispatch.Candidate{c}, &log, nil)
	defer a.Close()
	errs := make([]error, world)
	var wg sync.WaitGroup
	for r := range world {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.For(time.Minute))
			defer cancel()
			s, err := rank.Join(ctx, rank.Options{Socket: a.Socket(), Rank: r, WorldSize: world, Device: lo.Ternary(spread, rank.DeviceAuto, "0")})
			if err != nil {
				errs[r] = err
				return
			}
			p, err := ondevice.Open(s.World())
			if err == nil {
				err = f(s, p)
			}
			errs[r] = errors.Join(err, s.Close())
		})
	}
	wg.Wait()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %s", r, err)
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// kernelScenario is what kernels must do in any arrangement of ranks: eager calls, graphs, both in turns.
func kernelScenario(s *rank.Session, p *ondevice.Program) error {
	g, ctx := s.World(), context.Background()
	if err := g.Warm(ctx, sum, captured(sum)); err != nil {
		return err
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	const n = 1000
	x, _, err := p.CaptureLocal(func() error { return errors.Join(p.Sum(g, p.Dst, p.Src, n), p.Sum(g, p.Src, p.Src, n)) })
	// The driver may wait for the whole device before it has room for a graph: not where a rank that goes on waits for this one.
	if err = errors.Join(err, g.Barrier(ctx)); err != nil {
		return err
	}
	for i := range 20 {
		err := errors.Join(p.Once(g, 1+200*i), p.Load(g, n), p.Sum(g, p.Dst, p.Src, n), p.Check(g, p.Dst, n),
			p.Launch(x, p.Stream), p.Check(g, p.Dst, n), p.Check(g, p.Src, n))
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	start := time.Now()
	const calls = 200
	for range calls {
		if err := p.Sum(g, p.Dst, p.Dst, n); err != nil {
			return err
		}
	}
	if err := p.SynchronizeStream(p.Stream); err != nil {
		return err
	}
	if g.Rank() == 0 {
		fmt.Printf("# %d ranks, %s: %.1f us a call of %d bytes\n", g.Size(), g.Backend(sum, 4*n), float64(time.Since(start).Microseconds())/calls, 4*n)
	}
	return errors.Join(g.Barrier(ctx), p.DestroyExec(x), g.Err())
}

// TestKernels runs every backend with ranks that are processes, and ranks that are threads of one.
func TestKernels(t *testing.T) {
	n := devices(t)
	for name, c := range kernelBackends(t) {
		for _, world := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s, %d processes", name, world), func(t *testing.T) {
				out := ranksWith(t, world, []dispatch.Candidate{c}, "kernels")
				out.quiet(t)
				t.Log(out.ranks[0])
			})
		}
		for _, world := range []int{2, 8} {
			t.Run(fmt.Sprintf("%s, %d on one device", name, world), func(t *testing.T) { virtual(t, world, c, false, kernelScenario) })
		}
		if n > 1 {
			t.Run(fmt.Sprintf("%s, %d on their own devices", name, n), func(t *testing.T) { virtual(t, n, c, true, kernelScenario) })
		}
	}
}

// TestKernelOneGraph has the calls of all ranks in one graph, each rank's on a branch.
func TestKernelOneGraph(t *testing.T) {
	const world, calls = 8, 10
	for name, c := range kernelBackends(t) {
		t.Run(name, func(t *testing.T) {
			groups, programs := make([]*rank.Group, world), make([]*ondevice.Program, world)
			var once sync.Once
			var failed error
			ready, done := make(chan int, world), make(chan struct{})
			virtual(t, world, c, false, func(s *rank.Session, p *ondevice.Program) error {
				g, ctx := s.World(), context.Background()
				groups[g.Rank()], programs[g.Rank()] = g, p
				if err := errors.Join(g.Warm(ctx, captured(sum)), p.Load(g, 1000), g.Barrier(ctx)); err != nil {
					return err
				}
				ready <- g.Rank()
				if g.Rank() == 0 {
					once.Do(func() {
						defer close(done)
						failed = oneGraph(groups, programs, ready, calls)
					})
				}
				<-done
				return errors.Join(failed, p.Check(g, p.Dst, 1000), g.Err())
			})
		})
	}
}

// oneGraph captures the calls of all ranks as branches of one graph and launches it.
func oneGraph(groups []*rank.Group, programs []*ondevice.Program, ready <-chan int, calls int) error {
	for range groups {
		<-ready
	}
	first := programs[0]
	fork, err := first.NewEvent(false)
	if err != nil {
		return err
	}
	x, _, err := first.CaptureLocal(func() error {
		if err := first.Record(fork, first.Stream); err != nil {
			return err
		}
		for r, p := range programs {
			join, err := p.NewEvent(false)
			if err == nil && r > 0 {
				err = p.WaitEvent(p.Stream, fork)
			}
			for i := 0; i < calls && err == nil; i++ {
				err = p.Sum(groups[r], p.Dst, p.Src, 1000)
			}
			if err == nil && r > 0 {
				err = errors.Join(p.Record(join, p.Stream), p.WaitEvent(first.Stream, join))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	const launches = 10
	start := time.Now()
	for range launches {
		if err := first.Launch(x, first.Stream); err != nil {
			return err
		}
	}
	if err := ondevice.AwaitDone(first, await.For(20*time.Second)); err != nil {
		return err
	}
	fmt.Printf("# %d ranks in one graph, %s: %.1f us a call of 4000 bytes\n", len(groups), groups[0].Backend(captured(sum), 4000),
		float64(time.Since(start).Microseconds())/float64(calls*launches))
	return first.DestroyExec(x)
}

// TestKernelTwoStreams has two ranks put a graph and an eager call on two streams in opposite orders (sglang#31117): an error
// on every rank and no hang, and the device is good for another group.
func TestKernelTwoStreams(t *testing.T) {
	for name, c := range kernelBackends(t) {
		t.Run(name, func(t *testing.T) {
			virtual(t, 2, c, false, func(s *rank.Session, p *ondevice.Program) error {
				ctx := context.Background()
				g, err := s.NewGroup(ctx, []int{0, 1})
				if err != nil {
					return err
				}
				other, err := p.NewStream()
				if err != nil {
					return err
				}
				if err := errors.Join(s.World().Warm(ctx, sum), g.Warm(ctx, sum, captured(sum)), g.Barrier(ctx)); err != nil {
					return err
				}
				x, _, err := p.CaptureLocal(func() error { return p.Sum(g, p.Src, p.Src, 1000) })
				if err = errors.Join(err, g.Barrier(ctx)); err != nil {
					return err
				}
				if g.Rank() == 0 {
					err = p.Launch(x, other)
					time.Sleep(5 * time.Millisecond)
					_ = p.Sum(g, p.Dst, p.Dst, 500)
				} else {
					_ = p.Sum(g, p.Dst, p.Dst, 500)
					time.Sleep(5 * time.Millisecond)
					err = p.Launch(x, other)
				}
				why := ondevice.AwaitFailure(g)
				if err != nil || why == nil || !strings.Contains(why.Error(), "IN_FLIGHT") && !strings.Contains(why.Error(), "on the device for") {
					return errors.Join(err, fmt.Errorf("the group ended with %w", why))
				}
				err = errors.Join(ondevice.AwaitDone(p, await.For(5*time.Second)), p.SynchronizeStream(other), p.DestroyExec(x), p.Usable())
				if err == nil && g.Rank() == 0 {
					fmt.Printf("# two streams, %s: %s\n", g.Backend(sum, 4000), why)
				}
				// Freeing memory waits for the whole device: not while the other rank's kernel waits for this one's.
				return errors.Join(err, s.World().Barrier(ctx), p.Once(s.World(), 1000))
			})
		})
	}
}

// TestKernelReplayAlone has a rank wait in a replay for one that does not come.
func TestKernelReplayAlone(t *testing.T) {
	for name, c := range kernelBackends(t) {
		t.Run(name, func(t *testing.T) {
			virtual(t, 2, c, false, func(s *rank.Session, p *ondevice.Program) error {
				g, ctx := s.World(), context.Background()
				if err := errors.Join(g.Warm(ctx, captured(sum)), p.Load(g, 1000), g.Barrier(ctx)); err != nil {
					return err
				}
				x, _, err := p.CaptureLocal(func() error { return p.Sum(g, p.Dst, p.Src, 1000) })
				if err = errors.Join(err, g.Barrier(ctx)); err == nil && g.Rank() == 0 {
					err = p.Launch(x, p.Stream)
				}
				why := ondevice.AwaitFailure(g)
				if err != nil || why == nil || !strings.Contains(why.Error(), "waited for rank 1 on the device") {
					return errors.Join(err, fmt.Errorf("the group ended with %w", why))
				}
				got := make([]float32, 1000)
				err = errors.Join(ondevice.AwaitDone(p, await.For(time.Second)), p.ToHost(ondevice.Raw(got), p.Dst))
				if g.Rank() == 0 && !math.IsNaN(float64(got[999])) {
					err = errors.Join(err, fmt.Errorf("the replay left %v, want NaN", got[999]))
				}
				return errors.Join(err, p.DestroyExec(x), p.Usable())
			})
		})
	}
}

// awaitTurn starts the driver, which takes a while, and returns when a line comes on standard input.
func awaitTurn() {
	if d, err := cuda.Open(); err == nil {
		_ = d.Init()
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// victim is a rank that calls until it is killed.
func victim(s *rank.Session, p *ondevice.Program) error {
	for {
		if err := p.Sum(s.World(), p.Dst, p.Dst, 1000); err != nil {
			return err
		}
	}
}

// TestKernelKilled kills a rank into whose memory this process pushes, again and again. After each, this process forms a fresh
// group with the next in the same context.
func TestKernelKilled(t *testing.T) {
	kills := 100
	if n, err := strconv.Atoi(os.Getenv(envKills)); err == nil {
		kills = n
	}
	for name, c := range kernelBackends(t) {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "wg")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			var log bytes.Buffer
			a := startAgent(t, dir, 2, []dispatch.Candidate{c}, &log, nil)
			defer a.Close()
			k := &killing{t: t, agent: a}
			start, slowest := time.Now(), time.Duration(0)
			for i := range kills {
				took, err := k.once(t.Context())
				if err != nil {
					t.Fatalf("kill %d of %d: %s\n%s", i+1, kills, err, log.String())
				}
				slowest = max(slowest, took)
			}
			fmt.Printf("# %d ranks killed, %s: %s in all; a peer knew and its stream had ended after at most %s\n", kills, name, time.Since(start).Round(time.Millisecond), slowest.Round(time.Millisecond))
		})
	}
}

// killing is a process that survives.
type killing struct {
	t       *testing.T
	agent   *agent.Agent
	program *ondevice.Program // in one context for all groups
	next    *prey
}

// prey is a victim's process that waits for its turn.
type prey struct {
	command *exec.Cmd
	turn    io.WriteCloser
	said    bytes.Buffer
}

func (k *killing) breed() (*prey, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &prey{command: exec.CommandContext(k.t.Context(), exe)}
	v.command.Env = append(os.Environ(), envScenario+"=victim", rank.EnvSocket+"="+k.agent.Socket(), rank.EnvRank+"=1", rank.EnvWorldSize+"=2")
	v.command.Stdout, v.command.Stderr = &v.said, &v.said
	if v.turn, err = v.command.StdinPipe(); err != nil {
		return nil, err
	}
	return v, v.command.Start()
}

// once joins with a victim, kills it in the middle of calls, and returns how long it took until this process knew and its
// stream had come to an end.
func (k *killing) once(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, await.For(30*time.Second))
	defer cancel()
	var err error
	if k.next == nil {
		if k.next, err = k.breed(); err != nil {
			return 0, err
		}
	}
	v := k.next
	if _, err := io.WriteString(v.turn, "\n"); err != nil {
		return 0, err
	}
	s, err := rank.Join(ctx, rank.Options{Socket: k.agent.Socket(), Rank: 0, WorldSize: 2, Device: "0"})
	if err != nil {
		return 0, fmt.Errorf("%w; the other: %s", err, &v.said)
	}
	g := s.World()
	if k.program == nil {
		if k.program, err = ondevice.Open(g); err != nil {
			return 0, err
		}
	}
	p := k.program
	if k.next, err = k.breed(); err != nil {
		return 0, err
	}
	for range 20 {
		if err := errors.Join(p.Sum(g, p.Dst, p.Dst, 1000), p.SynchronizeStream(p.Stream)); err != nil {
			return 0, err
		}
	}
	for range 20 { // that will not all be done
		_ = p.Sum(g, p.Dst, p.Dst, 1000)
	}
	killed := time.Now()
	if err := v.command.Process.Kill(); err != nil {
		return 0, err
	}
	for g.Err() == nil && time.Since(killed) < 10*time.Second {
		_ = p.Sum(g, p.Dst, p.Dst, 1000)
	}
	why := ondevice.AwaitFailure(g)
	if why == nil {
		return 0, errors.New("the group did not fail")
	}
	err = ondevice.AwaitDone(p, await.For(5*time.Second))
	took := time.Since(killed)
	_ = v.command.Wait()
	return took, errors.Join(err, p.Usable(), s.Close())
}
