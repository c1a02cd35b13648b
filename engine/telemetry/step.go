package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
)

// Step is what every rank does with a plan before it is committed.
type Step string

// The steps.
const (
	Prepare  Step = spanPrepare
	Connect  Step = spanConnect // the ranks of a library make their communicator
	SelfTest Step = spanSelfTest
)

// RankStep is a step that a rank reports after it is over.
type RankStep struct {
	Step       Step
	Rank       int // of the group
	Backend    string
	Start, End time.Time       // by the rank's clock
	Reason     *backend.Reason // why it failed; nil if it worked
}

// RankStep records a rank's step as a child span. Ranks do not speak OpenTelemetry: they report times, which are kept
// between the start of the resolution and now, whatever a rank says.
func (r *Resolution) RankStep(s RankStep) {
	if !r.span.IsRecording() {
		return
	}
	now := time.Now()
	start := clamp(s.Start, r.start, now)
	end := clamp(s.End, start, now)
	_, span := r.tracer.Start(r.in(context.Background()), string(s.Step), trace.WithTimestamp(start),
		trace.WithAttributes(keyRank.Int(s.Rank), keyBackend.String(clean(s.Backend))))
	if s.Reason != nil {
		span.SetAttributes(reasonAttributes([]backend.Reason{*s.Reason})...)
		fault(span, *s.Reason)
	}
	span.End(trace.WithTimestamp(end))
}

func clamp(t, earliest, latest time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}
