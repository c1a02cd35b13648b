package telemetry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/telemetry"
)

func TestMetrics(t *testing.T) {
	candidates, policy := everything()
	served := dispatch.Resolve(t.Context(), candidates, collective.HostGroup("world", 3), hostSum, dispatch.Options{Policy: policy})
	fallback := dispatch.Resolve(t.Context(), candidates[12:], collective.HostGroup("world", 3), hostSum, dispatch.Options{Policy: policy})
	c := deliver(t, func(tel *telemetry.Telemetry) {
		m, err := telemetry.NewMeter(tel.MeterProvider)
		if err != nil {
			t.Fatal(err)
		}
		a := telemetry.NewSeries("world", "shm-flat", hostSum)
		b := telemetry.NewSeries("world", "shm-two-shot", hostSum)
		gone := telemetry.NewSeries("gone", "shm-flat", hostSum)
		source := func(r ...telemetry.Reading) func() error {
			stop, err := m.RegisterSource(func() []telemetry.Reading { return r })
			if err != nil {
				t.Fatal(err)
			}
			return stop
		}
		source(telemetry.Reading{Series: a, Calls: 122, Bytes: 122 * 14336}, telemetry.Reading{Series: b, Calls: 3, Bytes: 3 << 20})
		if err := source(telemetry.Reading{Series: gone, Calls: 1, Bytes: 1})(); err != nil {
			t.Error(err)
		}
		m.RecordSamples(t.Context(), a, []time.Duration{time.Microsecond, 3 * time.Microsecond})
		m.RecordSamples(t.Context(), a, []time.Duration{time.Second})
		m.Decided(t.Context(), served, policy, nil)
		m.Decided(t.Context(), served, policy, nil)
		m.Decided(t.Context(), fallback, policy, nil)
		m.Decided(t.Context(), dispatch.Decision{}, policy, &backend.Fault{Code: backend.Timeout, Err: errors.New("late")})
	})
	var b strings.Builder
	for _, p := range c.Metrics() {
		if strings.HasPrefix(p.Metric, "weir.") {
			b.WriteString(p.String() + "\n")
		}
	}
	golden(t, "metrics.golden", b.String())
}
