package switching

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// ring is another right schedule.
func ring(world int) (plan.Plan, error) { return allreduce.Ring(world, 4096), nil }

// version is a process of the plugin under test.
func version(process uint64, f *harness.Fake) func() []dispatch.Candidate {
	c := harness.Candidate("own", f)
	c.Plugin, c.Process = "own", process
	return func() []dispatch.Candidate { return []dispatch.Candidate{c} }
}

// upgradeTo has an agent replace the plugin.
func upgradeTo(j *harness.Job, process uint64, f *harness.Fake) ([]agent.GroupUpgrade, error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.For(30*time.Second))
	defer cancel()
	return j.Agent.Upgrade(ctx, agent.Upgrade{Plugin: "own", Replaced: process - 1, Candidates: version(process, f), Accept: func() error { return nil }})
}

// whenDecided is the status of the group of all ranks once so many classes are decided; without, if that takes too long.
func whenDecided(j *harness.Job, classes int) (group agent.GroupStatus) {
	await.Poll(await.For(await.Plenty), func() bool {
		all := j.Agent.Status(false)
		if len(all) == 0 || len(all[0].Classes) < classes {
			return false
		}
		group = all[0]
		return true
	})
	return group
}

// traffic makes checked calls of changing sizes and two ops until told to stop, and a number of them that is the same on
// every rank.
func traffic(g *rank.Group, stop *atomic.Bool, pause func(call int)) (calls int, err error) {
	last := make([]int32, 1)
	for call := 1; ; call++ {
		if pause != nil {
			pause(call)
		}
		n := 1 + call*37%5000
		src, dst := make([]int32, n), make([]int32, n)
		for i := range src {
			src[i] = int32((g.Rank() + 1) * (i + call))
		}
		op := collective.Sum
		if call%3 == 0 {
			op = collective.Max
		}
		if err := rank.AllReduce(g, dst, src, op); err != nil {
			return call, fmt.Errorf("call %d: %w", call, err)
		}
		for i, got := range dst {
			want := int32(g.Size() * (i + call))
			if op == collective.Sum {
				want = int32(g.Size()*(g.Size()+1)/2) * int32(i+call)
			}
			if got != want {
				return call, fmt.Errorf("call %d, element %d is %d, want %d", call, i, got, want)
			}
		}
		last[0] = 0
		if stop.Load() {
			last[0] = 1
		}
		if err := rank.AllReduce(g, last, last, collective.Min); err != nil || last[0] == 1 {
			return call, err
		}
	}
}

// TestUpgradeUnderTraffic: groups switch between plans again and again while calls go on, none wrong or lost.
func TestUpgradeUnderTraffic(t *testing.T) {
	for name, pause := range map[string]func(g *rank.Group, call int){
		"busy": nil,
		"late": func(g *rank.Group, call int) {
			if call%17 == g.Rank() {
				time.Sleep(time.Duration(call%5) * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const world, upgrades = 3, 12
			j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = version(1, &harness.Fake{}) })
			var stop atomic.Bool
			errs := j.Each(t, world, func(s *rank.Session) error {
				g := s.World()
				if g.Rank() == 0 {
					go func() {
						defer stop.Store(true)
						whenDecided(j, 1)
						for n := range upgrades {
							if n > 0 { // the first meets classes that are not decided yet
								whenDecided(j, 3)
							}
							f := &harness.Fake{Plans: []func(int) (plan.Plan, error){ring, harness.Flat}[n%2]}
							report, err := upgradeTo(j, uint64(n+2), f)
							if err != nil || len(report) == 0 || report[0].Call == 0 { // two, if a class was first decided meanwhile
								t.Errorf("upgrade %d: %v, %v", n, report, err)
							}
							t.Log(report)
						}
					}()
				}
				calls, err := traffic(g, &stop, func(call int) {
					if pause != nil {
						pause(g, call)
					}
				})
				if g.Rank() == 0 {
					t.Logf("%d calls", 2*calls)
				}
				return err
			})
			harness.NoErrors(t, errs)
		})
	}
}

// TestFailedUpgradeChangesNothing: whatever is wrong with the new process, calls go on by the old plans, and the next
// upgrade works.
func TestFailedUpgradeChangesNothing(t *testing.T) {
	const world = 3
	for name, c := range map[string]struct {
		f    *harness.Fake
		want string
	}{
		"accept fails":    {&harness.Fake{Accepts: func() (backend.Verdict, error) { return backend.Verdict{}, errors.New("out of luck") }}, "out of luck"},
		"nonsense":        {&harness.Fake{Accepts: func() (backend.Verdict, error) { return backend.Verdict{Kind: backend.Accept}, nil }}, "new process's backend own"},
		"no plan":         {&harness.Fake{Plans: func(int) (plan.Plan, error) { return nil, errors.New("cannot plan") }}, "cannot plan"},
		"plan not proved": {&harness.Fake{Plans: harness.Hasty}, "PLAN_REJECTED"},
		"wrong sums":      {&harness.Fake{Plans: harness.Wrong}, "PLAN_REJECTED"},
		"declines, alone": {&harness.Fake{Accepts: func() (backend.Verdict, error) {
			return backend.Declined(backend.Because(backend.TooSmall, "", "")), nil
		}}, "no backend serves"},
		"too much memory": {&harness.Fake{Plans: func(w int) (plan.Plan, error) { return allreduce.Ring(w, 1<<28), nil }}, "shared.max_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = version(1, &harness.Fake{}) })
			var stop atomic.Bool
			errs := j.Each(t, world, func(s *rank.Session) error {
				if s.World().Rank() == 0 {
					go func() {
						defer stop.Store(true)
						before := whenDecided(j, 3)
						_, err := upgradeTo(j, 2, c.f)
						if err == nil || !strings.Contains(err.Error(), c.want) {
							t.Errorf("error %v, want one with %q", err, c.want)
						}
						if after := j.Agent.Status(false)[0]; after.Epoch != before.Epoch || after.Switch != nil {
							t.Errorf("status %+v, before %+v", after, before)
						}
						if report, err := upgradeTo(j, 3, &harness.Fake{Plans: ring}); err != nil || len(report) != 1 || report[0].Call == 0 {
							t.Errorf("the upgrade after that: %v, %v", report, err)
						}
					}()
				}
				_, err := traffic(s.World(), &stop, nil)
				return err
			})
			harness.NoErrors(t, errs)
		})
	}
}

// TestUpgradeOfIdleRanks: ranks between two calls switch by themselves, so that nothing of the old plans is kept for them.
func TestUpgradeOfIdleRanks(t *testing.T) {
	const world = 3
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = version(1, &harness.Fake{}) })
	errs := j.Each(t, world, func(s *rank.Session) error {
		g := s.World()
		if err := harness.SumIsRight(g, 1000); err != nil {
			return err
		}
		for n := range 3 {
			if g.Rank() == 0 {
				if report, err := upgradeTo(j, uint64(n+2), &harness.Fake{Plans: ring}); err != nil || report[0].Call == 0 {
					t.Errorf("upgrade %d: %v, %v", n, report, err)
				}
				if !await.Poll(await.For(await.Plenty), func() bool { return j.Agent.Status(false)[0].Switch == nil }) {
					return fmt.Errorf("the switch does not end: status %+v", j.Agent.Status(false)[0])
				}
			}
			if err := g.Barrier(t.Context()); err != nil {
				return err
			}
		}
		return harness.SumIsRight(g, 1000)
	})
	harness.NoErrors(t, errs)
}

// TestAgentEndsInAnUpgrade, at any moment: all ranks go on by the same plans.
func TestAgentEndsInAnUpgrade(t *testing.T) {
	const world = 3
	moments := 12
	if require.Raced {
		moments = 3
	}
	for n := range moments {
		j := harness.StartAgent(t, world, func(o *agent.Options) {
			o.Candidates = version(1, &harness.Fake{})
			o.CallDeadline = await.For(10 * time.Second)
		})
		var stop atomic.Bool
		errs := j.Each(t, world, func(s *rank.Session) error {
			if s.World().Rank() == 0 {
				go func() {
					whenDecided(j, 3)
					go func() { // for as long as it can
						for p := uint64(2); ; p++ {
							if _, err := upgradeTo(j, p, &harness.Fake{Plans: []func(int) (plan.Plan, error){ring, harness.Flat}[p%2]}); err != nil {
								return
							}
						}
					}()
					time.Sleep(time.Duration(100+37*n) * time.Millisecond)
					if err := j.Agent.Close(); err != nil {
						t.Error(err)
					}
					time.Sleep(50 * time.Millisecond)
					stop.Store(true)
				}()
			}
			_, err := traffic(s.World(), &stop, nil)
			return err
		})
		harness.NoErrors(t, errs)
	}
}

// TestGroupsComeAndGoDuringUpgrades: an upgrade passes over groups that end in it, and those that are new get to the new
// process too.
func TestGroupsComeAndGoDuringUpgrades(t *testing.T) {
	const world = 3
	groups := 25
	if require.Raced {
		groups = 3
	}
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates = version(1, &harness.Fake{}) })
	var over atomic.Bool
	errs := j.Each(t, world, func(s *rank.Session) error {
		if s.World().Rank() == 0 {
			go func() {
				for p := uint64(2); !over.Load(); p++ {
					if _, err := upgradeTo(j, p, &harness.Fake{Plans: []func(int) (plan.Plan, error){ring, harness.Flat}[p%2]}); err != nil && !over.Load() {
						t.Errorf("upgrade: %v", err)
					}
				}
			}()
		}
		for n := range groups {
			g, err := s.NewGroup(t.Context(), []int{0, 1, 2})
			if err != nil {
				return err
			}
			for range n * 7 {
				if err := harness.SumIsRight(g, 100+n); err != nil {
					return fmt.Errorf("group %d: %w", n, err)
				}
			}
			if err := g.Close(); err != nil {
				return err
			}
		}
		err := s.World().Barrier(t.Context())
		over.Store(true)
		return err
	})
	harness.NoErrors(t, errs)
}
