package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// SlowRank is a rank that the others of its group have waited for.
type SlowRank struct {
	Group   string
	Rank    int
	Call    uint64 // in which they waited
	Last    string // what the rank did last, in words
	Since   time.Time
	Lag     time.Duration // how long they waited
	Outcome string        // how it ended, in a word or two
}

// SlowRank records one, when the wait is over.
func (t Tracer) SlowRank(ctx context.Context, s SlowRank) {
	_, span := t.tracer.Start(ctx, spanSlowRank, trace.WithTimestamp(s.Since))
	if span.IsRecording() {
		span.SetAttributes(keyGroup.String(clean(s.Group)), keyRank.Int(s.Rank), keySlowCall.Int64(int64(s.Call)),
			keySlowLast.String(clean(s.Last)), keyOutcome.String(s.Outcome))
	}
	span.End(trace.WithTimestamp(s.Since.Add(s.Lag)))
}

// SlowRank counts one.
func (m *Meter) SlowRank(ctx context.Context, s SlowRank) {
	m.lag.Record(ctx, s.Lag.Seconds(), metric.WithAttributes(keyGroup.String(clean(s.Group)), keyRank.Int(s.Rank), keyOutcome.String(s.Outcome)))
}
