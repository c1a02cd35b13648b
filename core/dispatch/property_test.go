package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// randomCandidates answer at random, some with requirements that are unmet or a plugin that never came up.
func randomCandidates(r *rand.Rand) []dispatch.Candidate {
	cs := make([]dispatch.Candidate, 1+r.IntN(6))
	for i := range cs {
		v := backend.Accepted(randomRanges(r)...)
		if r.IntN(4) == 0 {
			v = []backend.Verdict{busy, dunno, {}, all}[r.IntN(4)]
		}
		cs[i] = candidate(fmt.Sprintf("b%d", i), r.IntN(3), answering(v))
		switch r.IntN(8) {
		case 0:
			cs[i].Backend = nil
		case 1:
			cs[i].Info.Requirements.Multiple = 2
		case 2:
			cs[i].Info.Requirements.WorldSizes = backend.Exactly(8)
		}
	}
	return cs
}

func randomPolicy(r *rand.Rand) dispatch.Policy {
	name := func() string { return fmt.Sprintf("b%d", r.IntN(6)) }
	p := dispatch.Policy{Fallback: map[collective.Memory]string{collective.Host: name()}}
	if r.IntN(2) == 0 {
		p.Order = []string{name(), name()}
	}
	if r.IntN(4) == 0 {
		p.Disabled = []string{name()}
	}
	return p
}

func TestDecisionDoesNotDependOnTheOrderGiven(t *testing.T) {
	r := source(t)
	for range 2000 {
		cs, opts := randomCandidates(r), dispatch.Options{Policy: randomPolicy(r), AskAll: r.IntN(2) == 0}
		want := resolve(cs, opts)
		shuffled := slices.Clone(cs)
		r.Shuffle(len(cs), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		got := resolve(shuffled, opts)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(dispatch.Table{})); diff != "" {
			t.Fatalf("policy %+v (-as given +shuffled):\n%s", opts.Policy, diff)
		}
	}
}

// TestDecliningBackendChangesNothing inserts one at every position of the cascade.
func TestDecliningBackendChangesNothing(t *testing.T) {
	r := source(t)
	for range 500 {
		cs := randomCandidates(r)
		opts := dispatch.Options{Policy: randomPolicy(r)}
		ordered := dispatch.Order(cs, opts.Policy, class.Memory)
		var names []string
		for _, c := range ordered {
			names = append(names, c.Info.Name)
		}
		want := resolve(cs, opts)
		for at := range len(names) + 1 {
			extra := candidate("extra", 0, []func(context.Context, backend.Request) (backend.Verdict, error){
				answering(busy), answering(dunno), answering(backend.Verdict{}),
				func(context.Context, backend.Request) (backend.Verdict, error) { return all, context.DeadlineExceeded },
			}[r.IntN(4)])
			// A fallback stays last, so the cascade is written out without one.
			policy := dispatch.Policy{Order: slices.Insert(slices.Clone(names), at, "extra"), Disabled: opts.Policy.Disabled}
			got := resolve(append(slices.Clone(cs), extra), dispatch.Options{Policy: policy})
			if got.Answers[at].Backend != "extra" {
				t.Fatalf("the extra backend is not at %d: %s", at, outcome(got))
			}
			for n := int64(1); n <= 100; n++ {
				for _, n := range []int64{n, n << 20, backend.NoLimit - n + 1} {
					if serving(got, n) != serving(want, n) {
						t.Fatalf("%d bytes went to %s, with one more that declines to %s\n%s\n%s", n, serving(want, n), serving(got, n), outcome(want), outcome(got))
					}
				}
			}
		}
	}
}

// TestAskingAllChangesNoChoice: candidates that nothing is left for do not matter.
func TestAskingAllChangesNoChoice(t *testing.T) {
	r := source(t)
	for range 1000 {
		cs, policy := randomCandidates(r), randomPolicy(r)
		some, every := resolve(cs, dispatch.Options{Policy: policy}), resolve(cs, dispatch.Options{Policy: policy, AskAll: true})
		for n := int64(1); n <= 100; n++ {
			for _, n := range []int64{n, backend.NoLimit - n + 1} {
				if serving(some, n) != serving(every, n) {
					t.Fatalf("%d bytes: %s or %s\n%s\n%s", n, serving(some, n), serving(every, n), outcome(some), outcome(every))
				}
			}
		}
		for _, a := range every.Answers {
			if a.Verdict.Kind == backend.NotAsked {
				t.Fatalf("%s was not asked: %s", a.Backend, outcome(every))
			}
		}
	}
}
