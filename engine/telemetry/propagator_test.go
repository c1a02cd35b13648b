package telemetry_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/engine/telemetry"
)

// What the variable says holds whether or not anything is exported.
func TestPropagators(t *testing.T) {
	standard := []string{"baggage", "traceparent"}
	for given, want := range map[string][]string{
		"":                            standard,
		"tracecontext,baggage":        standard,
		" baggage , baggage":          {"baggage"},
		",tracecontext,":              {"traceparent"},
		"b3":                          {"b3"},
		"b3multi":                     {"x-b3-sampled", "x-b3-spanid", "x-b3-traceid"},
		"jaeger":                      {"uber-trace-id"},
		"xray":                        {"X-Amzn-Trace-Id"},
		"ottrace":                     {"ot-tracer-sampled", "ot-tracer-spanid", "ot-tracer-traceid"},
		"tracecontext,b3":             {"b3", "traceparent"},
		"none":                        nil,
		"baggage,none":                nil,
		"pigeon":                      standard, // the ranks' program may know it
		"tracecontext, pigeon, b3":    {"b3", "traceparent"},
		"TRACECONTEXT":                standard, // names are in lower case
		strings.Repeat(" , ", 3) + "": standard,
	} {
		t.Run(given, func(t *testing.T) {
			t.Setenv("OTEL_PROPAGATORS", given)
			tel, err := telemetry.Setup(t.Context(), telemetry.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
			}))
			member, _ := baggage.NewMember("k", "v")
			bag, _ := baggage.New(member)
			carrier := propagation.MapCarrier{}
			tel.Propagator.Inject(baggage.ContextWithBaggage(ctx, bag), carrier)
			got := slices.Sorted(maps.Keys(carrier))
			got = slices.DeleteFunc(got, func(k string) bool { return strings.HasPrefix(k, "ot-baggage-") || strings.HasPrefix(k, "uberctx-") })
			if diff := cmp.Diff(want, got, cmp.Transformer("len", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Error(diff)
			}
		})
	}
}
