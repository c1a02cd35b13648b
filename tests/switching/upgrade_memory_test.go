package switching

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// direct is a schedule that reads its peers' registered memory.
func direct(world int) (plan.Plan, error) { return allreduce.Direct(world, 4096), nil }

// onRegistered is a backend of the plugin under test that serves registered memory alone, before all others.
func onRegistered(process uint64, f *harness.Fake) func() []dispatch.Candidate {
	f.Says = backend.Info{Requirements: backend.Requirements{Registered: true}}
	c := harness.Candidate("direct", f)
	c.Plugin, c.Process = "own", process
	plain := harness.Candidate("plain", &harness.Fake{})
	return func() []dispatch.Candidate { return []dispatch.Candidate{c, plain} }
}

// TestUpgradeWithRegisteredMemory: buffers of Group.Alloc are served by the new plans too, those that come and go while an
// upgrade is in progress, and calls on other memory are left alone.
func TestUpgradeWithRegisteredMemory(t *testing.T) {
	const world, upgrades = 3, 8
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = onRegistered(1, &harness.Fake{Plans: direct}) })
	var stop atomic.Bool
	errs := j.Each(t, world, func(s *rank.Session) error {
		g := s.World()
		if g.Rank() == 0 {
			go func() {
				defer stop.Store(true)
				whenDecided(j, 3)
				for n := range upgrades {
					f := &harness.Fake{Plans: []func(int) (plan.Plan, error){harness.Flat, direct}[n%2]}
					report, err := j.Agent.Upgrade(t.Context(), agent.Upgrade{
						Plugin: "own", Replaced: uint64(n + 1), Candidates: onRegistered(uint64(n+2), f), Accept: func() error { return nil },
					})
					if err != nil || report[0].Call == 0 || !slices.Equal(report[0].Classes, []string{registeredSum.String()}) {
						t.Errorf("upgrade %d: %+v, %v; want one class to switch", n, report, err)
					}
				}
			}()
		}
		return onTwoMemories(t, g, &stop)
	})
	harness.NoErrors(t, errs)
}

var registeredSum = collective.Class{DataType: collective.Int32, Op: collective.Sum, Registered: true}

// onTwoMemories makes checked calls on registered memory, allocated anew every now and then, and on other memory in turns.
func onTwoMemories(t *testing.T, g *rank.Group, stop *atomic.Bool) error {
	const most = 3000
	last := make([]int32, 1)
	var memory []byte
	for call := 1; ; call++ {
		if call%50 == 1 {
			if memory != nil {
				if err := g.Free(memory); err != nil {
					return err
				}
			}
			var err error
			if memory, err = g.Alloc(t.Context(), 8*most); err != nil {
				return err
			}
		}
		n := 1 + call*37%most
		x := rank.As[int32](memory)
		src, dst := x[:n], x[most:most+n]
		if call%3 == 0 {
			src, dst = make([]int32, n), make([]int32, n)
		}
		for i := range src {
			src[i] = int32((g.Rank() + 1) * (i + call))
		}
		if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
			return fmt.Errorf("call %d: %w", call, err)
		}
		for i, got := range dst {
			if want := int32(g.Size()*(g.Size()+1)/2) * int32(i+call); got != want {
				return fmt.Errorf("call %d, element %d is %d, want %d", call, i, got, want)
			}
		}
		last[0] = 0
		if stop.Load() {
			last[0] = 1
		}
		if err := rank.AllReduce(g, last, last, collective.Min); err != nil || last[0] == 1 {
			return err
		}
	}
}

// TestUpgradeKeepsGraphs: classes in device memory keep their plans, so that a graph and eager calls go on as they were, also
// after the plugin's process has been replaced; the report and the status say so.
func TestUpgradeKeepsGraphs(t *testing.T) {
	const world = 2
	serving := func(process uint64) func() []dispatch.Candidate {
		c, host := harness.Kernels(t, "right", nil), harness.Candidate("host", &harness.Fake{Plans: []func(int) (plan.Plan, error){harness.Flat, ring}[process%2]})
		c.Plugin, c.Process, host.Plugin, host.Process = "own", process, "own", process
		return func() []dispatch.Candidate { return []dispatch.Candidate{c, host} }
	}
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = serving(1) })
	harness.NoErrors(t, j.EachDevice(t, world, func(s *rank.Session, d *ondevice.Program) error {
		g := s.World()
		if err := errors.Join(g.Warm(t.Context(), harness.CUDASum, harness.CapturedSum), harness.SumIsRight(g, 100)); err != nil {
			return err
		}
		x, _, err := d.CaptureLocal(func() error { return d.Sum(g, d.Dst, d.Src, 500) })
		if err != nil {
			return err
		}
		replay := func() error {
			return errors.Join(d.Load(g, 500), d.Launch(x, d.Stream), d.Check(g, d.Dst, 500), d.Once(g, 300), harness.SumIsRight(g, 100))
		}
		for n := range 3 {
			if err := errors.Join(replay(), g.Barrier(t.Context())); err != nil {
				return fmt.Errorf("before upgrade %d: %w", n, err)
			}
			if g.Rank() == 0 {
				wantGraphsKept(t, j, uint64(n+2), serving(uint64(n+2)))
			}
			if err := errors.Join(g.Barrier(t.Context()), replay()); err != nil {
				return fmt.Errorf("after upgrade %d: %w", n, err)
			}
		}
		return d.DestroyExec(x)
	}))
}

// wantGraphsKept replaces the plugin of idle ranks and looks at what is said of it.
func wantGraphsKept(t *testing.T, j *harness.Job, process uint64, candidates func() []dispatch.Candidate) {
	t.Helper()
	epochs := func() (device map[string]uint64) {
		device = map[string]uint64{}
		for _, c := range j.Agent.Status(false)[0].Classes {
			if c.Class != sumClass.String() {
				device[c.Class] = c.Epoch
				if len(c.Backends) != 1 || c.Backends[0].Backend != "kernels" || c.Backends[0].Serves == "" {
					t.Errorf("class %s is served by %+v", c.Class, c.Backends)
				}
			}
		}
		return device
	}
	before := epochs()
	report, err := j.Agent.Upgrade(t.Context(), agent.Upgrade{Plugin: "own", Replaced: process - 1, Candidates: candidates, Accept: func() error { return nil }})
	kept := []string{harness.CUDASum.String(), harness.CapturedSum.String()}
	if err != nil || len(report) != 1 || report[0].Call == 0 || !slices.Equal(report[0].Classes, []string{sumClass.String()}) ||
		!slices.Equal(slices.Sorted(slices.Values(report[0].Kept)), slices.Sorted(slices.Values(kept))) {
		t.Errorf("%+v, %v; want %v to keep their plans", report, err, kept)
	}
	await.Until(t, "all ranks have switched", func() bool { return j.Agent.Status(false)[0].Switch == nil })
	after := epochs()
	for class, epoch := range before {
		if after[class] != epoch || epoch == 0 {
			t.Errorf("class %s is in epoch %d, before in %d", class, after[class], epoch)
		}
	}
}

var sumClass = collective.Class{DataType: collective.Float32, Op: collective.Sum}
