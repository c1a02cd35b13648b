package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/collective"
)

// Failover is a call that went on with another backend because the worker of the first was gone.
type Failover struct {
	Group    string
	Class    collective.Class
	Call     uint64 // number within the group
	Bytes    int64  // of the call
	Redone   int64  // of them, those that the worker had not done
	From, To string // backends
	Added    time.Duration
}

// Failover records one, as it ends.
func (t Tracer) Failover(ctx context.Context, f Failover) {
	end := time.Now()
	_, span := t.tracer.Start(ctx, spanFailover, trace.WithTimestamp(end.Add(-f.Added)))
	if span.IsRecording() {
		span.SetAttributes(classAttributes(f.Class)...)
		span.SetAttributes(keyGroup.String(clean(f.Group)), keyBackend.String(clean(f.From)), keyFailoverTo.String(clean(f.To)),
			keyFailoverCall.Int64(int64(f.Call)), keyFailoverBytes.Int64(f.Bytes), keyFailoverRedone.Int64(f.Redone))
	}
	span.End(trace.WithTimestamp(end))
}

// FailedOver counts one.
func (m *Meter) FailedOver(ctx context.Context, f Failover) {
	m.failovers.Record(ctx, f.Added.Seconds(), metric.WithAttributes(keyBackend.String(clean(f.From)), keyFailoverTo.String(clean(f.To))))
}
