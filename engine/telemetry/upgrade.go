package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
)

// Upgrade is the span of the replacement of a plugin, weir.upgrade. Its methods may be called by any goroutine.
type Upgrade struct {
	tracer trace.Tracer
	span   trace.Span
}

// Upgrade begins the span of an upgrade. Always call End.
func (t Tracer) Upgrade(ctx context.Context, plugin string) *Upgrade {
	_, span := t.tracer.Start(ctx, spanUpgrade, trace.WithAttributes(keyPlugin.String(clean(plugin))))
	return &Upgrade{tracer: t.tracer, span: span}
}

// In makes the spans of decisions children of the upgrade.
func (u *Upgrade) In(ctx context.Context) context.Context { return trace.ContextWithSpan(ctx, u.span) }

// End ends the upgrade. err is why nothing has changed.
func (u *Upgrade) End(err error) {
	if err != nil {
		fault(u.span, backend.ReasonFor(err))
	}
	u.span.End()
}

// Switch is the span of a group's agreement on the call from which the new plans hold: a weir.commit, below which each rank
// has a weir.switch.
type Switch struct {
	tracer trace.Tracer
	ctx    context.Context
	start  time.Time
	group  string
}

// Commit records a group's agreement, which began then and has just ended, with an epoch that holds from a call on. With an
// error the group keeps its plans, and what is returned is nil.
func (u *Upgrade) Commit(group string, epoch, call uint64, began time.Time, err error) *Switch {
	ctx, span := u.tracer.Start(u.In(context.Background()), spanCommit, trace.WithTimestamp(began), trace.WithAttributes(keyGroup.String(clean(group))))
	defer span.End()
	if err != nil {
		fault(span, backend.ReasonFor(err))
		return nil
	}
	span.SetAttributes(keyEpoch.Int64(int64(epoch)), keyUpgradeCall.Int64(int64(call)))
	return &Switch{tracer: u.tracer, ctx: ctx, start: time.Now(), group: group}
}

// Passed records that a rank has come to the call, or past it.
func (s *Switch) Passed(rank int) {
	_, span := s.tracer.Start(s.ctx, spanSwitch, trace.WithTimestamp(s.start), trace.WithAttributes(keyRank.Int(rank), keyGroup.String(clean(s.group))))
	span.End()
}

// Upgraded counts an upgrade: some groups have switched, none had to, or err is why nothing has changed.
func (m *Meter) Upgraded(ctx context.Context, plugin string, switched bool, err error) {
	attrs := metric.WithAttributes(keyPlugin.String(clean(plugin)))
	switch {
	case err != nil:
		m.upgrades.Add(ctx, 1, attrs, metric.WithAttributes(keyOutcome.String("failed"), keyErrorType.String(string(backend.ReasonFor(err).Code))))
	case switched:
		m.upgrades.Add(ctx, 1, attrs, metric.WithAttributes(keyOutcome.String("switched")))
	default:
		m.upgrades.Add(ctx, 1, attrs, metric.WithAttributes(keyOutcome.String("unchanged")))
	}
}
