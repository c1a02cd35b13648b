package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// planless is flat that has no plan after all.
type planless struct {
	flat
	name string
}

func (p planless) Info() backend.Info {
	i := flat{}.Info()
	i.Name, i.Priority = p.name, 1
	return i
}

func (planless) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return nil, errors.New("out of ideas")
}

// Ranks hear nothing of plans that were dropped before any of them was told: however many backends fail so, what a rank has room for while
// it is busy is enough.
func TestRanksHearNothingOfPlansThatFailBefore(t *testing.T) {
	candidates := []dispatch.Candidate{{Plugin: "test", Info: small{}.Info(), Backend: small{}}}
	candidates[0].Info.Priority = 2
	for i := range 9 {
		p := planless{name: fmt.Sprintf("planless-%d", i)}
		candidates = append(candidates, dispatch.Candidate{Plugin: "test", Info: p.Info(), Backend: p})
	}
	candidates = append(candidates, dispatch.Candidate{Plugin: "test", Info: flat{}.Info(), Backend: flat{}})
	a := startAgent(t, 2, func(o *Options) { o.Candidates = func() []dispatch.Candidate { return candidates } })
	defer a.Close()
	clients := joined(t, a)
	group := clients[0].group
	ids := lo.Map(clients, func(c *client, _ int) uint64 { return c.say(resolve(group, sum)) })
	instances := make([][]uint64, len(clients))
	for i, c := range clients {
		m := c.next()
		if m.GetPrepare() == nil {
			t.Fatalf("rank %d is told %v, want what to prepare first of all", i, m)
		}
		instances[i] = lo.Map(m.GetPrepare().Instances, func(x *rankv1.Instance, _ int) uint64 { return x.Id })
	}
	for i, c := range clients {
		c.say(report(ids[i], instances[i]))
	}
	for i, c := range clients {
		if m := c.next(); m.GetSelfTest() == nil {
			t.Fatalf("rank %d is told %v, want to try", i, m)
		}
		c.say(report(ids[i], instances[i]))
	}
	for i, c := range clients {
		if m := c.next(); m.GetCommit() == nil {
			t.Fatalf("rank %d is told %v, want the decision", i, m)
		}
	}
}
