package telemetry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var hostSum = collective.Class{Memory: collective.Host, DataType: collective.BFloat16, Op: collective.Sum}

// fake is a backend that answers as its fields say.
type fake struct {
	info   backend.Info
	accept func(context.Context) (backend.Verdict, error)
}

func (f fake) Info() backend.Info { return f.info }
func (f fake) Accept(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
	return f.accept(ctx)
}

func (f fake) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &plan.Worker{SlotBytes: 64, Slots: 1}, nil
}
func (f fake) Release(context.Context, string) error { return nil }

func candidate(name string, q backend.Requirements, accept func(context.Context) (backend.Verdict, error)) dispatch.Candidate {
	info := backend.Info{Name: name, Requirements: q}
	return dispatch.Candidate{Plugin: "plugin-" + name, Info: info, Backend: fake{info: info, accept: accept}}
}

func answers(v backend.Verdict, err error) func(context.Context) (backend.Verdict, error) {
	return func(context.Context) (backend.Verdict, error) { return v, err }
}

func small() backend.Verdict { return backend.Accepted(backend.Range{Min: 1, Max: 64 << 10}) }

func all() backend.Verdict { return backend.Accepted(backend.AllBytes()...) }

// everything is a cascade in which every kind of answer occurs.
func everything() ([]dispatch.Candidate, dispatch.Policy) {
	crash := &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: errors.New("exit status 2")}
	candidates := []dispatch.Candidate{
		candidate("small", backend.Requirements{}, answers(small(), nil)),
		candidate("picky", backend.Requirements{}, answers(backend.Declined(
			backend.Because(backend.LinkNotFull, "SYS", "NV"),
			backend.Reason{Code: backend.InitFailed, Rank: 2, Text: "no \xff room"}), nil)),
		candidate("slow", backend.Requirements{}, answers(backend.Verdict{}, fmt.Errorf("accept: %w", context.DeadlineExceeded))),
		candidate("liar", backend.Requirements{}, answers(backend.Verdict{Kind: backend.Accept}, nil)),
		candidate("greedy", backend.Requirements{Windows: []backend.Window{{Range: backend.Range{Min: 1, Max: 8}}}},
			answers(backend.Accepted(backend.Range{Min: 16, Max: 32}), nil)),
		candidate("unsure", backend.Requirements{}, answers(backend.Verdict{
			Kind: backend.Unknown, Reasons: []backend.Reason{backend.Because(backend.ProbeUnavailable, "unknown", "P2P")},
		}, nil)),
		candidate("gpu", backend.Requirements{Memories: []collective.Memory{collective.CUDA}, WorldSizes: backend.Exactly(2, 4)}, nil),
		{Plugin: "plugin-dead", Info: backend.Info{Name: "dead"}, Fault: crash},
		candidate("off", backend.Requirements{}, nil),
		candidate("large", backend.Requirements{}, answers(all(), nil)),
		candidate("idle", backend.Requirements{}, nil),
		candidate("gpu-late", backend.Requirements{Memories: []collective.Memory{collective.CUDA}}, nil),
		candidate("last", backend.Requirements{}, answers(all(), nil)),
	}
	return candidates, dispatch.Policy{
		Order:    []string{"small", "picky", "slow", "liar", "greedy", "unsure", "gpu", "dead", "off", "large", "idle", "gpu-late"},
		Fallback: map[collective.Memory]string{collective.Host: "last"},
		Disabled: []string{"off"},
	}
}

// deliver runs record with telemetry that goes to a collector, and returns the collector when all has arrived.
func deliver(t *testing.T, record func(*telemetry.Telemetry)) *telemetrytest.Collector {
	t.Helper()
	c := telemetrytest.Start(t)
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{Endpoint: c.Endpoint(), Protocol: "grpc", ServiceName: "weir-test"})
	if err != nil {
		t.Fatal(err)
	}
	record(tel)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: (-want +got; -update rewrites it)\n%s", path, diff)
	}
}

func TestResolutionTree(t *testing.T) {
	candidates, policy := everything()
	group := collective.HostGroup("world", 3)
	c := deliver(t, func(tel *telemetry.Telemetry) {
		ctx, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), group, hostSum)
		d := r.Resolve(ctx, candidates, dispatch.Options{Policy: policy})
		for _, name := range []string{"small", "large"} {
			if _, err := r.Plan(ctx, name, func(context.Context) (plan.Plan, error) { return &plan.Worker{}, nil }); err != nil {
				t.Error(err)
			}
		}
		now := time.Now()
		for _, step := range []telemetry.Step{telemetry.Prepare, telemetry.SelfTest} {
			for _, rank := range []int{2, 0, 1} {
				r.RankStep(telemetry.RankStep{Step: step, Rank: rank, Backend: "small", Start: now, End: now})
				r.RankStep(telemetry.RankStep{Step: step, Rank: rank, Backend: "large", Start: now, End: now})
			}
			now = time.Now()
		}
		if err := r.Commit(ctx, 7, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		r.End(d, nil)
	})
	golden(t, "resolve.golden", c.Tree(telemetrytest.View{Keep: telemetrytest.FromEngine}))
}

// A plan that a rank cannot prepare sends the cascade on: what was answered is not recorded twice, and a candidate
// that was not needed before is recorded where it is asked.
func TestResolutionTreeAfterFailure(t *testing.T) {
	group := collective.HostGroup("world", 2)
	policy := dispatch.Policy{Order: []string{"first", "second", "third"}, Fallback: map[collective.Memory]string{collective.Host: "second"}}
	candidates := []dispatch.Candidate{
		candidate("first", backend.Requirements{}, answers(all(), nil)),
		candidate("second", backend.Requirements{}, answers(all(), nil)),
		candidate("third", backend.Requirements{Ops: []collective.Op{collective.Max}}, nil),
	}
	c := deliver(t, func(tel *telemetry.Telemetry) {
		ctx, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), group, hostSum)
		r.Resolve(ctx, candidates, dispatch.Options{Policy: policy})
		now := time.Now()
		why := backend.Reason{Code: backend.InitFailed, Rank: 1, Text: "out of memory"}
		r.RankStep(telemetry.RankStep{Step: telemetry.Prepare, Rank: 0, Backend: "first", Start: now, End: now})
		r.RankStep(telemetry.RankStep{Step: telemetry.Prepare, Rank: 1, Backend: "first", Start: now, End: now, Reason: &why})
		d := r.Resolve(ctx, candidates, dispatch.Options{Policy: policy, Verdicts: map[string]backend.Verdict{"first": backend.Declined(why)}})
		_, err := r.Plan(ctx, "second", func(context.Context) (plan.Plan, error) {
			return nil, &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: errors.New("no programs")}
		})
		r.End(d, err)
	})
	golden(t, "failure.golden", c.Tree(telemetrytest.View{Keep: telemetrytest.FromEngine}))
}

// During a question the backend sees its own weir.accept, so that what it records joins the trace.
func TestBackendSeesItsSpan(t *testing.T) {
	var seen trace.SpanContext
	c := deliver(t, func(tel *telemetry.Telemetry) {
		ctx, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), collective.HostGroup("world", 2), hostSum)
		d := r.Resolve(ctx, []dispatch.Candidate{candidate("one", backend.Requirements{}, func(ctx context.Context) (backend.Verdict, error) {
			seen = trace.SpanContextFromContext(ctx)
			return all(), nil
		})}, dispatch.Options{})
		r.End(d, nil)
	})
	for _, s := range c.Spans() {
		if s.Name == "weir.accept" && (s.ID != seen.SpanID().String() || s.Trace != seen.TraceID().String()) {
			t.Errorf("the backend saw span %v, recorded was %s of trace %s", seen, s.ID, s.Trace)
		}
		if s.End < s.Start {
			t.Errorf("%s ends before it starts", s.Name)
		}
	}
	if !seen.IsValid() || len(c.Spans()) != 2 {
		t.Errorf("the backend saw %v, %d spans were recorded", seen, len(c.Spans()))
	}
}

// Recording must not change what is decided.
func TestDecisionDoesNotDependOnTelemetry(t *testing.T) {
	candidates, policy := everything()
	group := collective.HostGroup("world", 3)
	want := dispatch.Resolve(t.Context(), candidates, group, hostSum, dispatch.Options{Policy: policy})
	resolve := func(tel *telemetry.Telemetry) dispatch.Decision {
		ctx, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), group, hostSum)
		d := r.Resolve(ctx, candidates, dispatch.Options{Policy: policy})
		r.RankStep(telemetry.RankStep{Step: telemetry.Prepare})
		r.End(d, nil)
		return d
	}
	check := func(name string, got dispatch.Decision) {
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(dispatch.Table{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	check("disabled", resolve(telemetry.Disabled()))
	deliver(t, func(tel *telemetry.Telemetry) { check("enabled", resolve(tel)) })
}

// A rank's clock is not trusted: its steps stay within the resolution.
func TestRankStepIsClamped(t *testing.T) {
	c := deliver(t, func(tel *telemetry.Telemetry) {
		_, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), collective.HostGroup("world", 1), hostSum)
		r.RankStep(telemetry.RankStep{Step: telemetry.Prepare, End: time.Now().Add(time.Hour)})
		r.RankStep(telemetry.RankStep{Step: telemetry.SelfTest, Start: time.Now().Add(time.Hour), End: time.Unix(5, 0)})
		r.End(dispatch.Decision{}, nil)
	})
	spans := c.Spans()
	if len(spans) != 3 {
		t.Fatalf("got %d spans, want 3", len(spans))
	}
	whole := spans[2]
	for _, s := range spans[:2] {
		if s.Start < whole.Start || s.End > whole.End || s.End < s.Start {
			t.Errorf("%s lasts from %d to %d, the resolution from %d to %d", s.Name, s.Start, s.End, whole.Start, whole.End)
		}
	}
}

func BenchmarkResolution(b *testing.B) {
	candidates, policy := everything()
	group := collective.HostGroup("world", 3)
	for name, p := range map[string]trace.TracerProvider{
		"disabled": telemetry.Disabled().TracerProvider,
		"recorded": sdktrace.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			tracer := telemetry.NewTracer(p)
			for b.Loop() {
				ctx, r := tracer.Start(b.Context(), group, hostSum)
				r.End(r.Resolve(ctx, candidates, dispatch.Options{Policy: policy}), nil)
			}
		})
	}
}
