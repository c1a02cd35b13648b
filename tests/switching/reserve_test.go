package switching

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/builtin"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// slowPlugin is a plugin that comes up when a test says so, beside the engine's own backend.
type slowPlugin struct {
	up     atomic.Bool
	waited atomic.Int32
	comes  bool // as soon as a decision waits for it
}

func (p *slowPlugin) candidates() []dispatch.Candidate {
	c := dispatch.Candidate{Plugin: "own", Info: backend.Info{Name: "own"}, Fault: &backend.Fault{
		Code: backend.Timeout, Rank: backend.AnyRank, Err: errors.New("plugin own: it did not come up within 10s"),
	}}
	if p.up.Load() {
		c = version(1, &harness.Fake{})()[0]
	}
	return []dispatch.Candidate{c, builtin.Candidate()}
}

func (p *slowPlugin) await(context.Context, string) bool {
	p.waited.Add(1)
	if p.comes {
		p.up.Store(true)
	}
	return p.comes
}

func (p *slowPlugin) start(t *testing.T, world int) *harness.Job {
	return harness.StartAgent(t, world, func(o *agent.Options) { o.Candidates, o.Await = p.candidates, p.await })
}

// served is who serves the one class of the group of all ranks.
func served(j *harness.Job) []string {
	all := j.Agent.Status(false)
	if len(all) != 1 || len(all[0].Classes) != 1 {
		return nil
	}
	return lo.FilterMap(all[0].Classes[0].Backends, func(s agent.Served, _ int) (string, bool) { return s.Backend, s.Serves != "" })
}

// TestDecisionWaitsForAPluginThatIsSlow: what is in reserve does not serve where a plugin comes up while the decision waits.
func TestDecisionWaitsForAPluginThatIsSlow(t *testing.T) {
	p := &slowPlugin{comes: true}
	j := p.start(t, 2)
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 27) }))
	d := j.Decided()[0].Decision
	if n := p.waited.Load(); n != 1 || len(d.Answers) != 1 || d.Answers[0].Backend != "own" || d.Answers[0].Verdict.Kind != backend.Accept {
		t.Errorf("waited %d times, then %+v; want once, and that own serves alone", n, d.Answers)
	}
}

// TestReserveServesUntilThePluginIsUp: without any plugin sums are made all the same, and by the plugin once it is there, while calls go on.
func TestReserveServesUntilThePluginIsUp(t *testing.T) {
	const world = 3
	p := &slowPlugin{}
	j := p.start(t, world)
	var stop atomic.Bool
	harness.NoErrors(t, j.Each(t, world, func(s *rank.Session) error {
		g := s.World()
		if err := harness.SumIsRight(g, 27); err != nil {
			return err
		}
		if g.Rank() == 0 {
			if by := served(j); len(by) != 1 || by[0] != builtin.Name {
				return fmt.Errorf("%v serve, want the engine's own", by)
			}
			p.up.Store(true)
			j.Agent.Serves("own")
			go func() {
				defer stop.Store(true)
				await.Poll(await.Plenty, func() bool { by := served(j); return len(by) == 1 && by[0] == "own" })
			}()
		}
		for over := []float32{0}; over[0] == 0; {
			if err := harness.SumIsRight(g, 5000); err != nil {
				return err
			}
			if over[0] = 0; g.Rank() == 0 && stop.Load() {
				over[0] = 1
			}
			if err := rank.AllReduce(g, over, over, 0); err != nil {
				return err
			}
		}
		if by := served(j); len(by) != 1 || by[0] != "own" {
			return fmt.Errorf("%v serve at last, want the plugin's", by)
		}
		return nil
	}))
	if n := p.waited.Load(); n == 0 {
		t.Error("the first decision did not wait for the plugin")
	}
	reason := j.Decided()[0].Decision.Answers[0].Verdict.Reasons[0]
	if reason.Code != backend.Timeout {
		t.Errorf("the plugin is declined with %s, want TIMEOUT", reason)
	}
}
