package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// cascade watches one pass of dispatch.Resolve. A question's span begins when the backend is asked but is completed from
// the decision, because only that holds the verdict that counted.
type cascade struct {
	resolution *Resolution
	start      time.Time
	mu         sync.Mutex // of questions: backends may be asked at once
	questions  map[candidateKey]*question
	broken     map[candidateKey]bool // its plugin never came up
}

// question is one call of Accept.
type question struct {
	span    trace.Span
	end     time.Time
	verdict backend.Verdict
	err     error
}

// watched is a backend whose Accept is recorded. It lives no longer than the pass, which calls nothing else.
type watched struct {
	backend.Backend
	cascade *cascade
	key     candidateKey
}

func (c *cascade) watch(x dispatch.Candidate) dispatch.Candidate {
	key := candidateKey{x.Plugin, x.Info.Name}
	if x.Backend == nil {
		c.broken[key] = true
		return x
	}
	x.Backend = watched{Backend: x.Backend, cascade: c, key: key}
	return x
}

// Accept asks the backend within a span.
func (w watched) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	q := &question{}
	r := w.cascade.resolution
	ctx, q.span = r.tracer.Start(r.in(ctx), spanAccept)
	w.cascade.mu.Lock()
	w.cascade.questions[w.key] = q
	w.cascade.mu.Unlock()
	q.verdict, q.err = w.Backend.Accept(ctx, req)
	q.end = time.Now()
	return q.verdict, q.err
}

// record completes the spans of the questions and adds those of the candidates that the pass settled without one, each
// a moment after the one before, so that start times keep the cascade's order.
func (c *cascade) record(d dispatch.Decision) {
	r, at := c.resolution, c.start
	r.idle = nil
	for _, a := range d.Answers {
		key := candidateKey{a.Plugin, a.Backend}
		if q := c.questions[key]; q != nil {
			q.finish(a)
			r.settled[key] = true
			at = q.end
			continue
		}
		if r.settled[key] {
			continue
		}
		at = at.Add(time.Nanosecond)
		if a.Verdict.Kind == backend.NotAsked {
			r.idle = append(r.idle, idle{answer: a, at: at})
			continue
		}
		r.instant(a, at, c.broken[key])
		r.settled[key] = true
	}
}

// finish ends a question's span with the verdict that the decision holds. An error and nonsense are faults; a decline
// is not.
func (q *question) finish(a dispatch.Answer) {
	q.span.SetAttributes(answerAttributes(a)...)
	nonsense := a.Verdict.Kind == backend.Decline && (q.verdict.Kind == backend.Accept || q.verdict.Validate() != nil)
	if q.err != nil || nonsense {
		fault(q.span, a.Verdict.Reasons[0])
	}
	q.span.End(trace.WithTimestamp(q.end))
}

// instant records a candidate that was settled without a question.
func (r *Resolution) instant(a dispatch.Answer, at time.Time, broken bool) {
	_, span := r.tracer.Start(r.in(context.Background()), spanAccept, trace.WithTimestamp(at), trace.WithAttributes(answerAttributes(a)...))
	if broken && len(a.Verdict.Reasons) > 0 && a.Verdict.Reasons[0].Code != backend.DisabledByUser {
		fault(span, a.Verdict.Reasons[0])
	}
	span.End(trace.WithTimestamp(at))
}
