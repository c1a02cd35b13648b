package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// Meter turns the counters that ranks keep in shared memory into metrics. It may be used from any goroutine.
type Meter struct {
	meter     metric.Meter
	calls     metric.Int64ObservableCounter
	io        metric.Int64ObservableCounter
	duration  metric.Float64Histogram
	decisions metric.Int64Counter
	failovers metric.Float64Histogram
	lag       metric.Float64Histogram
	upgrades  metric.Int64Counter
}

// Series identifies what is counted. Make it once per group, backend and class, and keep it: its attributes are built
// then and not at every reading.
type Series struct{ attributes metric.MeasurementOption }

// NewSeries makes a series.
func NewSeries(group, backendName string, class collective.Class) Series {
	attrs := append(classAttributes(class), keyGroup.String(clean(group)), keyBackend.String(clean(backendName)))
	return Series{attributes: metric.WithAttributeSet(attribute.NewSet(attrs...))}
}

// Reading is the state of one series' counters, counted from the start of the group.
type Reading struct {
	Series Series
	Calls  int64
	Bytes  int64 // of one rank's buffer, summed over the calls
}

// durationBounds are seconds: a small all-reduce takes a microsecond, a large one on a slow link most of a second.
var durationBounds = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1,
}

// failoverBounds are seconds: another decision takes tens of milliseconds, the wait for a worker that hangs seconds.
var failoverBounds = []float64{1e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1, 2, 5, 10, 30}

// lagBounds are seconds: from what is called slow to what ends a group.
var lagBounds = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

// NewMeter creates the instruments.
func NewMeter(p metric.MeterProvider) (*Meter, error) {
	m := &Meter{meter: p.Meter(scope)}
	var errs [7]error
	m.calls, errs[0] = m.meter.Int64ObservableCounter(metricCalls,
		metric.WithUnit("{call}"), metric.WithDescription("All-reduce calls of a group."))
	m.io, errs[1] = m.meter.Int64ObservableCounter(metricIO,
		metric.WithUnit("By"), metric.WithDescription("Bytes all-reduced: the size of one rank's buffer, summed over the calls of a group."))
	m.duration, errs[2] = m.meter.Float64Histogram(metricDuration,
		metric.WithUnit("s"), metric.WithDescription("Time of sampled all-reduce calls in a rank."),
		metric.WithExplicitBucketBoundaries(durationBounds...))
	m.decisions, errs[3] = m.meter.Int64Counter(metricDecisions,
		metric.WithUnit("{decision}"), metric.WithDescription("Resolutions of a request class of a group, by outcome."))
	m.failovers, errs[4] = m.meter.Float64Histogram(metricFailovers,
		metric.WithUnit("s"), metric.WithDescription("Time by which the loss of a worker made a call longer."),
		metric.WithExplicitBucketBoundaries(failoverBounds...))
	m.lag, errs[5] = m.meter.Float64Histogram(metricLag,
		metric.WithUnit("s"), metric.WithDescription("Time that the other ranks waited for one that was slow."),
		metric.WithExplicitBucketBoundaries(lagBounds...))
	m.upgrades, errs[6] = m.meter.Int64Counter(metricUpgrades,
		metric.WithUnit("{upgrade}"), metric.WithDescription("Replacements of a plugin, by outcome."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	return m, nil
}

// RegisterSource has read called at every collection, from a goroutine of the meter provider; it must not block. stop
// ends that: read is not called after it has returned.
func (m *Meter) RegisterSource(read func() []Reading) (stop func() error, err error) {
	reg, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, r := range read() {
			o.ObserveInt64(m.calls, r.Calls, r.Series.attributes)
			o.ObserveInt64(m.io, r.Bytes, r.Series.attributes)
		}
		return nil
	}, m.calls, m.io)
	if err != nil {
		return nil, fmt.Errorf("register a source of metrics: %w", err)
	}
	return reg.Unregister, nil
}

// RecordSamples records the durations of sampled calls.
func (m *Meter) RecordSamples(ctx context.Context, s Series, samples []time.Duration) {
	for _, d := range samples {
		m.duration.Record(ctx, d.Seconds(), s.attributes)
	}
}

// Decided counts a resolution: err and the decision are those given to Resolution.End.
func (m *Meter) Decided(ctx context.Context, d dispatch.Decision, p dispatch.Policy, err error) {
	switch {
	case err != nil:
		m.decisions.Add(ctx, 1, metric.WithAttributes(keyOutcome.String("failed"), keyErrorType.String(string(backend.ReasonFor(err).Code))))
	case usesFallback(d, p):
		m.decisions.Add(ctx, 1, metric.WithAttributes(keyOutcome.String("fallback")))
	default:
		m.decisions.Add(ctx, 1, metric.WithAttributes(keyOutcome.String("served")))
	}
}
