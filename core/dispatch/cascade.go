package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// Candidate is a backend of a plugin, or what is left of one.
type Candidate struct {
	Plugin  string
	Process uint64 // tells the plugin's processes apart, which follow one another; 0 if that does not matter
	Info    backend.Info
	Backend backend.Backend // nil if the plugin never came up; then Fault says why
	Fault   error

	// Gates stand in the way whatever the group is, such as a switch that is off. They are reported with the unmet
	// requirements; gates that are all PROBE_UNAVAILABLE leave the verdict unknown.
	Gates []backend.Reason

	// Reserve is for what all others leave: unless the policy's order or fallback names it, it is asked after the fallback, and has no
	// answer at all where nothing is left for it or its memory is another.
	Reserve bool
}

// Policy is what the configuration says about a cascade.
type Policy struct {
	Order    []string                     // backend names to be asked first, in this order
	Fallback map[collective.Memory]string // backend asked last, per memory kind
	Disabled []string                     // backend names never asked
}

// Options are what a resolution adds to the policy.
type Options struct {
	Policy       Policy
	AskAll       bool // ask every candidate, also those that nothing is left for, and all of them at once
	Hypothetical bool // the group is not of this machine; unknown stays unknown
	Apart        bool // each candidate by itself, not for what the others serve: sizes without one order of addition are no matter

	// Verdicts are known already and not asked for again, by backend name: those of the same resolution before a
	// plan failed, with the failed backend's decline.
	Verdicts map[string]backend.Verdict
}

// Answer is what became of one candidate.
type Answer struct {
	Backend string
	Plugin  string
	Verdict backend.Verdict

	OtherOrder bool // it accepted, and was declined for what others serve: see uniform
}

// Decision is the outcome of a cascade for one group and request class.
type Decision struct {
	Group   string
	Class   collective.Class
	Answers []Answer // in cascade order
	Table   *Table   // indices are positions in Answers
}

// Order sorts candidates into the cascade for a memory kind: configured, then priority from high to low, then name,
// the fallback last unless it is among those configured, and behind it what is in reserve. Ties do not depend on the order given.
func Order(candidates []Candidate, p Policy, memory collective.Memory) []Candidate {
	place := func(c Candidate) int {
		if i := slices.Index(p.Order, c.Info.Name); i >= 0 {
			return i
		}
		if name := p.Fallback[memory]; name != "" && c.Info.Name == name {
			return len(p.Order) + 1
		}
		if c.Reserve {
			return len(p.Order) + 2
		}
		return len(p.Order)
	}
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(place(a), place(b)),
			cmp.Compare(b.Info.Priority, a.Info.Priority),
			cmp.Compare(a.Info.Name, b.Info.Name),
			cmp.Compare(a.Plugin, b.Plugin),
		)
	})
}

// Resolve asks the candidates in cascade order until every byte count is served and returns the decision. In a group that asks for
// determinism all byte counts of a class are served in one order of addition, or none. It does not
// fail: what goes wrong with a candidate is its verdict. Only a done ctx leaves candidates declined with TIMEOUT.
func Resolve(ctx context.Context, candidates []Candidate, group collective.Group, class collective.Class, opts Options) Decision {
	ordered := slices.DeleteFunc(Order(candidates, opts.Policy, class.Memory), func(c Candidate) bool {
		m := c.Info.Requirements.Memories
		return inReserve(c, opts.Policy, class.Memory) && len(m) > 0 && !slices.Contains(m, class.Memory)
	})
	usual := slices.IndexFunc(ordered, func(c Candidate) bool { return inReserve(c, opts.Policy, class.Memory) })
	if usual < 0 {
		usual = len(ordered)
	}
	d := Decision{Group: group.ID, Class: class, Answers: []Answer{}}
	req := backend.Request{Group: group, Class: class, Hypothetical: opts.Hypothetical}
	accepted := make([][]backend.Range, len(ordered))
	order := uniformFor(ordered, req, opts)
	add := func(c Candidate, v backend.Verdict) {
		if d.Answers = append(d.Answers, Answer{Backend: c.Info.Name, Plugin: c.Plugin, Verdict: v}); v.Kind == backend.Accept {
			accepted[len(d.Answers)-1] = v.Ranges
		}
	}
	if opts.AskAll {
		for i, v := range askAll(ctx, ordered[:usual], req, opts) {
			add(ordered[i], v)
		}
	} else {
		for _, c := range ordered[:usual] {
			add(c, ask(ctx, c, req, opts, !order.served(accepted)))
		}
	}
	for _, c := range ordered[usual:] {
		if order.served(accepted) {
			break
		}
		add(c, ask(ctx, c, req, opts, true))
	}
	order.settle(d.Answers, accepted)
	d.Table = NewTable(accepted)
	return d
}

// inReserve reports whether a candidate is only there for what all others leave.
func inReserve(c Candidate, p Policy, memory collective.Memory) bool {
	return c.Reserve && c.Info.Name != p.Fallback[memory] && !slices.Contains(p.Order, c.Info.Name)
}

// askAll asks at once: no answer depends on another's, and each may be a call to another process.
func askAll(ctx context.Context, candidates []Candidate, req backend.Request, opts Options) []backend.Verdict {
	verdicts := make([]backend.Verdict, len(candidates))
	var wg sync.WaitGroup
	for i, c := range candidates {
		wg.Go(func() { verdicts[i] = ask(ctx, c, req, opts, true) })
	}
	wg.Wait()
	return verdicts
}

// ask gives the verdict of one candidate; needed is false when nothing is left for it to serve.
func ask(ctx context.Context, c Candidate, req backend.Request, opts Options, needed bool) backend.Verdict {
	if slices.Contains(opts.Policy.Disabled, c.Info.Name) {
		return backend.Declined(backend.Because(backend.DisabledByUser, "", ""))
	}
	if c.Backend == nil {
		return backend.Declined(backend.ReasonFor(lo.CoalesceOrEmpty(c.Fault, fmt.Errorf("the plugin did not start"))))
	}
	allowed := c.Info.Check(req)
	if len(c.Gates) > 0 {
		return settle(gated(c.Gates, allowed), opts)
	}
	if allowed.Kind != backend.Accept {
		return settle(allowed, opts)
	}
	if v, ok := opts.Verdicts[c.Info.Name]; ok && v.Kind != backend.NotAsked {
		return v
	}
	if !needed {
		return backend.Verdict{Kind: backend.NotAsked}
	}
	if err := ctx.Err(); err != nil {
		return backend.Declined(backend.Reason{Code: backend.Timeout, Rank: backend.AnyRank, Text: err.Error()})
	}
	v, err := c.Backend.Accept(ctx, req)
	if err != nil {
		return backend.Declined(backend.ReasonFor(err))
	}
	if err := v.Validate(); err != nil {
		return backend.Declined(nonsense(err))
	}
	if v.Kind == backend.Accept {
		v.Ranges = intersect(v.Ranges, allowed.Ranges)
		if len(v.Ranges) == 0 {
			return backend.Declined(nonsense(fmt.Errorf("accepted only byte counts outside its own windows")))
		}
	}
	return settle(v, opts)
}

// gated is the verdict of a candidate that something stands in the way of, whatever its requirements give.
func gated(gates []backend.Reason, allowed backend.Verdict) backend.Verdict {
	reasons := append(slices.Clone(gates), allowed.Reasons...)
	unprobed := func(r backend.Reason) bool { return r.Code == backend.ProbeUnavailable }
	if allowed.Kind != backend.Decline && !slices.ContainsFunc(reasons, func(r backend.Reason) bool { return !unprobed(r) }) {
		return backend.Verdict{Kind: backend.Unknown, Reasons: reasons}
	}
	return backend.Declined(reasons...)
}

// settle makes unknown a decline at run time, with PROBE_UNAVAILABLE: a group cannot be run on a guess.
func settle(v backend.Verdict, opts Options) backend.Verdict {
	if v.Kind != backend.Unknown || opts.Hypothetical {
		return v
	}
	unprobed := func(r backend.Reason) bool { return r.Code == backend.ProbeUnavailable }
	if !slices.ContainsFunc(v.Reasons, unprobed) {
		v.Reasons = append(slices.Clone(v.Reasons), backend.Because(backend.ProbeUnavailable, "", ""))
	}
	return backend.Declined(v.Reasons...)
}

func nonsense(err error) backend.Reason {
	return backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "invalid verdict: " + err.Error()}
}

func intersect(a, b []backend.Range) []backend.Range {
	var both []backend.Range
	for _, x := range a {
		for _, y := range b {
			if r, ok := x.Intersect(y); ok {
				both = append(both, r)
			}
		}
	}
	return both
}

// Served are the byte counts that a candidate serves, as Table.Ranges gives them, divided where its verdict says that
// bounds are measured on one side and a guess on the other.
func (d Decision) Served(index int) []backend.Range {
	accepted := d.Answers[index].Verdict.Ranges
	guessed := func(n int64) bool {
		return slices.ContainsFunc(accepted, func(r backend.Range) bool { return r.Unmeasured && r.Min <= n && n <= r.Max }) &&
			!slices.ContainsFunc(accepted, func(r backend.Range) bool { return !r.Unmeasured && r.Min <= n && n <= r.Max })
	}
	var all []backend.Range
	for _, served := range d.Table.Ranges(index) {
		starts := []int64{served.Min}
		for _, r := range accepted {
			starts = append(starts, r.Min)
			if r.Max < served.Max {
				starts = append(starts, r.Max+1)
			}
		}
		slices.Sort(starts)
		starts = slices.DeleteFunc(slices.Compact(starts), func(n int64) bool { return n < served.Min || n > served.Max })
		for i, n := range starts {
			piece := served
			piece.Min, piece.Unmeasured = n, guessed(n)
			if i+1 < len(starts) {
				piece.Max = starts[i+1] - 1
			}
			if last := len(all) - 1; i > 0 && all[last].Unmeasured == piece.Unmeasured {
				all[last].Max = piece.Max
				continue
			}
			all = append(all, piece)
		}
	}
	return all
}
