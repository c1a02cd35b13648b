package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// accepts is a backend that serves some byte counts.
type accepts struct {
	backend.Backend
	ranges []backend.Range
}

func (a accepts) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(a.ranges...), nil
}

// TestReserve: what is in reserve is heard of only where something is left for it, and stands behind all others unless it is named.
func TestReserve(t *testing.T) {
	all, some := backend.AllBytes(), []backend.Range{{Min: 1, Max: 64}}
	plugin := func(ranges []backend.Range) dispatch.Candidate {
		return dispatch.Candidate{Plugin: "p", Info: backend.Info{Name: "usual", Priority: -100}, Backend: accepts{ranges: ranges}}
	}
	spare := dispatch.Candidate{
		Plugin: "weir", Info: backend.Info{Name: "spare", Priority: 100, Requirements: backend.Requirements{Memories: []collective.Memory{collective.Host}}},
		Backend: accepts{ranges: all}, Reserve: true,
	}
	fallback := func(name string) map[collective.Memory]string {
		return map[collective.Memory]string{collective.Host: name}
	}
	for name, c := range map[string]struct {
		usual  []backend.Range
		policy dispatch.Policy
		memory collective.Memory
		want   []string // who answers, and how
	}{
		"nothing is left":         {usual: all, want: []string{"usual accept"}},
		"some is left":            {usual: some, want: []string{"usual accept", "spare accept"}},
		"behind the fallback":     {usual: some, policy: dispatch.Policy{Fallback: fallback("usual")}, want: []string{"usual accept", "spare accept"}},
		"it is the fallback":      {usual: all, policy: dispatch.Policy{Fallback: fallback("spare")}, want: []string{"usual accept", "spare not_asked"}},
		"it is named first":       {usual: all, policy: dispatch.Policy{Order: []string{"spare"}}, want: []string{"spare accept", "usual not_asked"}},
		"it is disabled":          {usual: some, policy: dispatch.Policy{Disabled: []string{"spare"}}, want: []string{"usual accept", "spare decline"}},
		"disabled and not needed": {usual: all, policy: dispatch.Policy{Disabled: []string{"spare"}}, want: []string{"usual accept"}},
		"memory of another kind":  {usual: some, memory: collective.CUDA, want: []string{"usual accept"}},
		"the only other is turned off": {
			usual: all, policy: dispatch.Policy{Disabled: []string{"usual"}}, want: []string{"usual decline", "spare accept"},
		},
	} {
		for _, askAll := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				class := collective.Class{Memory: c.memory}
				d := dispatch.Resolve(t.Context(), []dispatch.Candidate{spare, plugin(c.usual)}, collective.HostGroup("g", 2), class, dispatch.Options{Policy: c.policy, AskAll: askAll})
				want := c.want
				if askAll { // also who has nothing left to serve
					want = lo.Map(want, func(s string, _ int) string { return strings.Replace(s, "not_asked", "accept", 1) })
				}
				got := lo.Map(d.Answers, func(a dispatch.Answer, _ int) string { return a.Backend + " " + string(a.Verdict.Kind) })
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("ask all %t (-want +got):\n%s", askAll, diff)
				}
			})
		}
	}
}

// TestReserveAddsInItsOrder: in a group that asks for determinism it stands in for plugins that serve some sizes only, in the order in which
// they add if that is its own, or else for all.
func TestReserveAddsInItsOrder(t *testing.T) {
	class := collective.Class{DataType: collective.Float32, Op: collective.Sum}
	group := collective.HostGroup("g", 3)
	group.Deterministic = true
	for name, c := range map[string]struct {
		order backend.Order
		want  []string
	}{
		"the same order": {backend.RankOrder, []string{"usual accept", "spare accept"}},
		"another order":  {"other", []string{"usual decline", "spare accept"}},
	} {
		t.Run(name, func(t *testing.T) {
			usual := dispatch.Candidate{
				Plugin: "p", Info: backend.Info{Name: "usual", Requirements: backend.Requirements{Deterministic: true, Order: c.order}},
				Backend: accepts{ranges: []backend.Range{{Min: 1, Max: 64}}},
			}
			spare := dispatch.Candidate{
				Plugin: "weir", Info: backend.Info{Name: "spare", Requirements: backend.Requirements{Deterministic: true, Order: backend.RankOrder}},
				Backend: accepts{ranges: backend.AllBytes()}, Reserve: true,
			}
			d := dispatch.Resolve(t.Context(), []dispatch.Candidate{spare, usual}, group, class, dispatch.Options{})
			got := lo.Map(d.Answers, func(a dispatch.Answer, _ int) string { return a.Backend + " " + string(a.Verdict.Kind) })
			if diff := cmp.Diff(c.want, got); diff != "" || !d.Table.Complete() {
				t.Errorf("complete %t (-want +got):\n%s", d.Table.Complete(), diff)
			}
		})
	}
}
