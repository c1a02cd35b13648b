package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
)

// fake is a backend that answers with accept and counts how often it is asked.
type fake struct {
	backend.Backend
	accept func(ctx context.Context, req backend.Request) (backend.Verdict, error)
	asked  atomic.Int32
}

func (f *fake) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	f.asked.Add(1)
	return f.accept(ctx, req)
}

func candidate(name string, priority int, accept func(context.Context, backend.Request) (backend.Verdict, error)) dispatch.Candidate {
	return dispatch.Candidate{
		Plugin: "plugin-" + name, Backend: &fake{accept: accept},
		Info: backend.Info{Name: name, Kind: plan.ScheduleKind, Priority: priority},
	}
}

func answering(v backend.Verdict) func(context.Context, backend.Request) (backend.Verdict, error) {
	return func(context.Context, backend.Request) (backend.Verdict, error) { return v, nil }
}

func asked(c dispatch.Candidate) int { return int(c.Backend.(*fake).asked.Load()) }

var (
	all   = backend.Accepted(backend.AllBytes()...)
	small = backend.Accepted(backend.Range{Min: 1, Max: 1024})
	busy  = backend.Declined(backend.Because(backend.InFlight, "2", "1"))
	dunno = backend.Verdict{Kind: backend.Unknown, Reasons: []backend.Reason{backend.Because(backend.ProbeUnavailable, "driver unknown", "550")}}
	class = collective.Class{DataType: collective.BFloat16}
)

func resolve(candidates []dispatch.Candidate, opts dispatch.Options) dispatch.Decision {
	return dispatch.Resolve(context.Background(), candidates, collective.HostGroup("g", 4), class, opts)
}

// outcome writes a decision as one line: every answer in order.
func outcome(d dispatch.Decision) string {
	var parts []string
	for _, a := range d.Answers {
		parts = append(parts, fmt.Sprintf("%s: %s", a.Backend, a.Verdict))
	}
	return strings.Join(parts, " | ")
}

// serving is the name of the backend that serves a byte count.
func serving(d dispatch.Decision, n int64) string {
	if i := d.Table.Lookup(n); i != dispatch.None {
		return d.Answers[i].Backend
	}
	return "none"
}

func TestOrder(t *testing.T) {
	give := func(names ...string) []dispatch.Candidate {
		var cs []dispatch.Candidate
		for _, n := range names {
			cs = append(cs, dispatch.Candidate{Plugin: "p", Info: backend.Info{Name: n, Priority: map[string]int{"high": 50, "nccl": 90}[n]}})
		}
		return cs
	}
	fallback := map[collective.Memory]string{collective.CUDA: "nccl"}
	for _, c := range []struct {
		policy dispatch.Policy
		memory collective.Memory
		want   string
	}{
		{dispatch.Policy{}, collective.Host, "nccl high a b c"},
		{dispatch.Policy{Fallback: fallback}, collective.CUDA, "high a b c nccl"},
		{dispatch.Policy{Fallback: fallback}, collective.Host, "nccl high a b c"},
		{dispatch.Policy{Order: []string{"c", "absent", "a"}}, collective.Host, "c a nccl high b"},
		{dispatch.Policy{Order: []string{"nccl", "b"}, Fallback: fallback}, collective.CUDA, "nccl b high a c"},
	} {
		for range 20 {
			cs := give("a", "b", "c", "high", "nccl")
			rand.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
			var names []string
			for _, x := range dispatch.Order(cs, c.policy, c.memory) {
				names = append(names, x.Info.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Fatalf("%+v for %s memory: %s, want %s", c.policy, c.memory, got, c.want)
			}
		}
	}
}

func TestAskingStopsWhenEverythingIsServed(t *testing.T) {
	cs := []dispatch.Candidate{
		candidate("a", 9, answering(busy)), candidate("b", 8, answering(small)), candidate("c", 7, answering(all)),
		candidate("d", 6, answering(all)), candidate("e", 5, answering(all)),
	}
	cs[4].Info.Requirements.Memories = []collective.Memory{collective.CUDA}
	d := resolve(cs, dispatch.Options{})
	want := "a: decline; IN_FLIGHT: 2, needs 1 | b: accept 1 B to 1 KiB | c: accept all sizes | d: not_asked | e: decline; MEMORY: host, needs cuda"
	if got := outcome(d); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if asked(cs[3]) != 0 || asked(cs[4]) != 0 || asked(cs[2]) != 1 {
		t.Errorf("asked c %d, d %d, e %d times, want 1, 0, 0", asked(cs[2]), asked(cs[3]), asked(cs[4]))
	}
	if serving(d, 1024) != "b" || serving(d, 1025) != "c" {
		t.Errorf("1 KiB goes to %s, the next to %s", serving(d, 1024), serving(d, 1025))
	}
	if d.Group != "g" || d.Class != class || d.Answers[1].Plugin != "plugin-b" {
		t.Errorf("the decision does not say what it is for: %+v", d)
	}

	d = resolve(cs, dispatch.Options{AskAll: true})
	if got := d.Answers[3].Verdict.Kind; got != backend.Accept || asked(cs[3]) != 1 || asked(cs[4]) != 0 {
		t.Errorf("asking all: d is %s after %d questions, e was asked %d times", got, asked(cs[3]), asked(cs[4]))
	}
	if serving(d, 1025) != "c" {
		t.Errorf("asking all changed the choice to %s", serving(d, 1025))
	}
}

func TestVerdictsOfOneCandidate(t *testing.T) {
	crash := &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: errors.New("exit status 2")}
	failing := func(err error) func(context.Context, backend.Request) (backend.Verdict, error) {
		return func(context.Context, backend.Request) (backend.Verdict, error) { return backend.Verdict{}, err }
	}
	windowed := candidate("x", 0, answering(all))
	windowed.Info.Requirements.Windows = []backend.Window{{Range: backend.Range{Min: 64, Max: 1024, Multiple: 8}}}
	outside := candidate("x", 0, answering(backend.Accepted(backend.Range{Min: 1, Max: 63})))
	outside.Info.Requirements = windowed.Info.Requirements
	unprobed := candidate("x", 0, answering(all))
	unprobed.Info.Requirements.Platforms = []string{"linux/amd64"}
	unlike := backend.Verdict{Kind: backend.Unknown, Reasons: []backend.Reason{backend.Because(backend.Version, "driver ?", "550")}}
	gone := dispatch.Candidate{Plugin: "p", Info: backend.Info{Name: "x"}}
	goneWhy := dispatch.Candidate{Plugin: "p", Info: backend.Info{Name: "x"}, Fault: crash}
	foreign := dispatch.Options{Hypothetical: true}
	for _, c := range []struct {
		name string
		c    dispatch.Candidate
		opts dispatch.Options
		want string
	}{
		{"accepts within its windows", windowed, dispatch.Options{}, "accept 64 B to 1 KiB (multiples of 8 B)"},
		{"accepts only outside its windows", outside, dispatch.Options{}, "decline; OTHER (invalid verdict: accepted only byte counts outside its own windows)"},
		{"error", candidate("x", 0, failing(errors.New("odd"))), dispatch.Options{}, "decline; OTHER (odd)"},
		{"deadline", candidate("x", 0, failing(fmt.Errorf("ask: %w", context.DeadlineExceeded))), dispatch.Options{}, "decline; TIMEOUT (ask: context deadline exceeded)"},
		{"crash", candidate("x", 0, failing(crash)), dispatch.Options{}, "decline; PLUGIN_CRASHED (exit status 2)"},
		{"never came up", gone, dispatch.Options{}, "decline; OTHER (the plugin did not start)"},
		{"never came up and why", goneWhy, dispatch.Options{}, "decline; PLUGIN_CRASHED (exit status 2)"},
		{"disabled", candidate("x", 0, answering(all)), dispatch.Options{Policy: dispatch.Policy{Disabled: []string{"x"}}}, "decline; DISABLED_BY_USER"},
		{"zero verdict", candidate("x", 0, answering(backend.Verdict{})), dispatch.Options{}, `decline; OTHER (invalid verdict: unknown verdict "")`},
		{"not asked is not an answer", candidate("x", 0, answering(backend.Verdict{Kind: backend.NotAsked})), dispatch.Options{}, `decline; OTHER (invalid verdict: unknown verdict "not_asked")`},
		{"accept of nothing", candidate("x", 0, answering(backend.Accepted())), dispatch.Options{}, "decline; OTHER (invalid verdict: accepted without a byte range)"},
		{"decline without a reason", candidate("x", 0, answering(backend.Declined())), dispatch.Options{}, "decline; OTHER (invalid verdict: decline without a reason)"},
		{"impossible range", candidate("x", 0, answering(backend.Accepted(backend.Range{Min: 5, Max: 2}))), dispatch.Options{}, "decline; OTHER (invalid verdict: impossible byte range: 5 to 2, multiples of 0)"},
		{"unknown code", candidate("x", 0, answering(backend.Declined(backend.Reason{Code: "HM"}))), dispatch.Options{}, `decline; OTHER (invalid verdict: unknown reason code "HM")`},
		{"unknown", candidate("x", 0, answering(dunno)), dispatch.Options{}, "decline; PROBE_UNAVAILABLE: driver unknown, needs 550"},
		{"unknown under another code", candidate("x", 0, answering(unlike)), dispatch.Options{}, "decline; VERSION: driver ?, needs 550; PROBE_UNAVAILABLE"},
		{"unknown elsewhere", candidate("x", 0, answering(dunno)), foreign, "unknown; PROBE_UNAVAILABLE: driver unknown, needs 550"},
		{"unknown requirement", unprobed, dispatch.Options{}, "decline; PROBE_UNAVAILABLE: platform unknown, needs linux/amd64"},
		{"unknown requirement elsewhere", unprobed, foreign, "unknown; PROBE_UNAVAILABLE: platform unknown, needs linux/amd64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := resolve([]dispatch.Candidate{c.c}, c.opts)
			if got := d.Answers[0].Verdict.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if v := d.Answers[0].Verdict; v.Validate() != nil || v.Kind != backend.Accept && serving(d, 128) != "none" {
				t.Errorf("after %s: %v, 128 B go to %s", v, v.Validate(), serving(d, 128))
			}
		})
	}
	if asked(unprobed) != 0 || len(unlike.Reasons) != 1 {
		t.Error("a candidate with an unknown requirement was asked, or its answer was changed")
	}
}

func TestBackendSeesTheRequest(t *testing.T) {
	var seen backend.Request
	c := candidate("x", 0, func(_ context.Context, req backend.Request) (backend.Verdict, error) {
		seen = req
		return all, nil
	})
	resolve([]dispatch.Candidate{c}, dispatch.Options{Hypothetical: true})
	if !seen.Hypothetical || seen.Class != class || seen.Group.ID != "g" || seen.Group.WorldSize() != 4 {
		t.Errorf("the backend saw %+v", seen)
	}
}

func TestDoneContextDeclinesWhatIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cs := []dispatch.Candidate{
		candidate("a", 2, func(context.Context, backend.Request) (backend.Verdict, error) { cancel(); return small, nil }),
		candidate("b", 1, answering(all)),
	}
	d := dispatch.Resolve(ctx, cs, collective.HostGroup("g", 2), class, dispatch.Options{})
	if got := outcome(d); got != "a: accept 1 B to 1 KiB | b: decline; TIMEOUT (context canceled)" || asked(cs[1]) != 0 {
		t.Errorf("got %s, b was asked %d times", got, asked(cs[1]))
	}
}

func TestSeveralHosts(t *testing.T) {
	g := collective.HostGroup("g", 2)
	g.Ranks[1].Host = "b"
	library := candidate("library", 0, answering(all))
	library.Info.Kind = plan.LibraryKind
	d := dispatch.Resolve(context.Background(), []dispatch.Candidate{candidate("schedule", 9, answering(all)), library}, g, class, dispatch.Options{})
	if got := outcome(d); got != "schedule: decline; MULTI_HOST: 2 hosts, needs one host | library: accept all sizes" {
		t.Errorf("got %s", got)
	}
}

func TestEarlierVerdictsAreReused(t *testing.T) {
	cs := []dispatch.Candidate{candidate("a", 3, answering(all)), candidate("b", 2, answering(small)), candidate("c", 1, answering(all))}
	d := resolve(cs, dispatch.Options{})
	failed := backend.Declined(backend.Reason{Code: backend.SelfTestFailed, Rank: 2, Text: "wrong sum"})
	known := map[string]backend.Verdict{"a": failed}
	for _, a := range d.Answers[1:] {
		known[a.Backend] = a.Verdict // not asked so far
	}
	d = resolve(cs, dispatch.Options{Verdicts: known})
	if got := outcome(d); got != "a: decline; SELFTEST_FAILED on rank 2 (wrong sum) | b: accept 1 B to 1 KiB | c: accept all sizes" {
		t.Errorf("after a failed: %s", got)
	}
	for _, a := range d.Answers {
		known[a.Backend] = a.Verdict
	}
	known["c"] = failed
	d = resolve(cs, dispatch.Options{Verdicts: known, AskAll: true})
	if serving(d, 1) != "b" || serving(d, 2048) != "none" || d.Table.Complete() {
		t.Errorf("after a and c failed: %s", outcome(d))
	}
	for i, c := range cs {
		if asked(c) != 1 {
			t.Errorf("candidate %d was asked %d times, want once", i, asked(c))
		}
	}
}
