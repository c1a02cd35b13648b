package telemetry

import (
	"context"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
)

// Tracer records resolutions as traces.
type Tracer struct{ tracer trace.Tracer }

// NewTracer makes a Tracer that may be used from any goroutine.
func NewTracer(p trace.TracerProvider) Tracer { return Tracer{tracer: p.Tracer(scope)} }

// Resolution is the span of one resolution, weir.resolve, from which all others hang. Resolve and End are called by one
// goroutine at a time, the other methods by any.
type Resolution struct {
	tracer trace.Tracer
	span   trace.Span
	start  time.Time
	group  collective.Group
	class  collective.Class
	policy dispatch.Policy

	settled map[candidateKey]bool // has its weir.accept
	idle    []idle                // was not asked so far
}

type candidateKey struct{ plugin, backend string }

// idle is a candidate that was not asked and when that was known.
type idle struct {
	answer dispatch.Answer
	at     time.Time
}

// Start begins the span of a resolution. Always call End.
func (t Tracer) Start(ctx context.Context, group collective.Group, class collective.Class) (context.Context, *Resolution) {
	r := &Resolution{tracer: t.tracer, start: time.Now(), group: group, class: class, settled: map[candidateKey]bool{}}
	ctx, r.span = t.tracer.Start(ctx, spanResolve, trace.WithTimestamp(r.start))
	if r.span.IsRecording() {
		r.span.SetAttributes(requestAttributes(group, class)...)
	}
	return ctx, r
}

// Resolve is dispatch.Resolve for the resolution's group and class. Every candidate gets one child span weir.accept, in
// cascade order, also one that is not asked; during a question the span is in the ctx that the backend sees. Resolve
// may be called again with the verdicts so far in opts.Verdicts: only what is new is recorded.
func (r *Resolution) Resolve(ctx context.Context, candidates []dispatch.Candidate, opts dispatch.Options) dispatch.Decision {
	r.policy = opts.Policy
	if !r.span.IsRecording() {
		return dispatch.Resolve(ctx, candidates, r.group, r.class, opts)
	}
	c := &cascade{resolution: r, start: time.Now(), questions: map[candidateKey]*question{}, broken: map[candidateKey]bool{}}
	watched := lo.Map(candidates, func(x dispatch.Candidate, _ int) dispatch.Candidate { return c.watch(x) })
	d := dispatch.Resolve(ctx, watched, r.group, r.class, opts)
	c.record(d)
	return d
}

// Plan runs ask, which asks a backend for its plan and checks it, within a child span weir.plan.
func (r *Resolution) Plan(ctx context.Context, backendName string, ask func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
	ctx, span := r.tracer.Start(r.in(ctx), spanPlan, trace.WithAttributes(keyBackend.String(clean(backendName))))
	defer span.End()
	p, err := ask(ctx)
	if err != nil {
		fault(span, backend.ReasonFor(err))
		return p, err
	}
	if span.IsRecording() && p != nil {
		span.SetAttributes(keyPlanKind.String(string(p.Kind())))
	}
	return p, nil
}

// Commit runs commit within a child span weir.commit.
func (r *Resolution) Commit(ctx context.Context, epoch uint64, commit func(context.Context) error) error {
	ctx, span := r.tracer.Start(r.in(ctx), spanCommit, trace.WithAttributes(keyEpoch.Int64(int64(epoch))))
	defer span.End()
	err := commit(ctx)
	if err != nil {
		fault(span, backend.ReasonFor(err))
	}
	return err
}

// End ends the resolution with its last decision, the zero Decision if it never came to one. err is why the group
// cannot go on, nil if it can.
func (r *Resolution) End(d dispatch.Decision, err error) {
	if r.span.IsRecording() {
		for _, i := range r.idle {
			r.instant(i.answer, i.at, false)
		}
		if err != nil {
			fault(r.span, backend.ReasonFor(err))
		} else if d.Table != nil {
			r.span.SetAttributes(keyBackends.StringSlice(chosen(d)), keyFallback.Bool(usesFallback(d, r.policy)))
		}
	}
	r.span.End()
}

// in makes spans children of weir.resolve even if the caller lost its ctx.
func (r *Resolution) in(ctx context.Context) context.Context {
	return trace.ContextWithSpan(ctx, r.span)
}

// chosen are the names of the backends that serve at least one byte count.
func chosen(d dispatch.Decision) []string {
	if d.Table == nil {
		return nil
	}
	return lo.Map(d.Table.Chosen(), func(i, _ int) string { return clean(d.Answers[i].Backend) })
}

func usesFallback(d dispatch.Decision, p dispatch.Policy) bool {
	name := p.Fallback[d.Class.Memory]
	return name != "" && lo.Contains(chosen(d), name)
}
