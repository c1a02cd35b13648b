package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/samber/lo"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// small is flat for small messages only.
type small struct{ flat }

func (small) Info() backend.Info { i := flat{}.Info(); i.Name = "a-small"; return i }

func (small) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.Range{Min: 1, Max: 1024}), nil
}

// obey does what a rank does until the request has been answered, whatever has to be discarded on the way.
func (c *client) obey(id uint64) {
	var instances []uint64
	for {
		switch m, err := c.receive(); {
		case err != nil || m.GetFailed() != nil || m.GetCommit() != nil:
			return
		case m.GetPrepare() != nil:
			instances = lo.Map(m.GetPrepare().Instances, func(i *rankv1.Instance, _ int) uint64 { return i.Id })
			c.say(report(id, instances))
		case m.GetSelfTest() != nil:
			c.say(report(id, instances))
		}
	}
}

// Plans that are too large together for one message to the ranks are a decline of the one that is too much, with the sizes:
// the group lives.
func TestPlansThatAreTooLargeTogether(t *testing.T) {
	p, err := flat{}.Plan(t.Context(), backend.Request{Group: collective.HostGroup("g", 2)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := proto.Size(pluginv1.FromPlan(p))
	for name, c := range map[string]struct {
		limit int
		want  backend.Kind
	}{"both fit": {2 * one, backend.Accept}, "one fits": {2*one - 1, backend.Decline}} {
		t.Run(name, func(t *testing.T) {
			decided := make(chan Resolved, 1)
			a := startAgent(t, 2, func(o *Options) {
				o.maxPlans = c.limit
				o.Candidates = func() []dispatch.Candidate {
					return []dispatch.Candidate{{Plugin: "test", Info: small{}.Info(), Backend: small{}}, {Plugin: "test", Info: flat{}.Info(), Backend: flat{}}}
				}
				o.Decided = func(r Resolved) { decided <- r }
			})
			defer a.Close()
			clients := joined(t, a)
			group := clients[0].group
			ids := lo.Map(clients, func(m *client, _ int) uint64 { return m.say(resolve(group, sum)) })
			var ranks sync.WaitGroup
			for i, m := range clients {
				ranks.Go(func() { m.obey(ids[i]) })
			}
			ranks.Wait()
			got := (<-decided).Decision.Answers
			if len(got) != 2 || got[0].Verdict.Kind != backend.Accept || got[1].Verdict.Kind != c.want {
				t.Fatalf("%+v", got)
			}
			if c.want == backend.Decline {
				why := got[1].Verdict.Reasons[0]
				if want := fmt.Sprintf("the plans of this request class have %d bytes, which reach the ranks in one message of %d at most", 2*one, c.limit); why.Code != backend.PlanRejected || !strings.Contains(why.Text, want) {
					t.Errorf("got  %s\nwant %s", why, want)
				}
			}
		})
	}
}
