package plugin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// tracing is nil when nobody asked for it: nothing is installed then, and nothing costs anything.
type tracing struct {
	provider *sdktrace.TracerProvider
	answers  *answers
}

// startTracing obeys the OTEL_* variables, which the engine passes on. Spans of calls are children of the engine's.
func startTracing(p Plugin) (*tracing, error) {
	ctx := context.Background()
	exporter, err := newExporter(ctx)
	if err != nil || exporter == nil {
		return nil, err
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "weir-plugin-"+p.Name), attribute.String("service.version", p.Version)),
		resource.WithTelemetrySDK(), resource.WithProcessPID(),
		resource.WithFromEnv(), // last, so that it wins
	)
	if err != nil {
		return nil, err
	}
	open := &answers{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res),
		sdktrace.WithBatcher(exporter), sdktrace.WithSpanProcessor(open)) // in this order: an answer is over once its span is the batcher's
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagator())
	return &tracing{provider: provider, answers: open}, nil
}

// propagator reads the engine's trace context, and writes it for whatever the plugin calls, as OTEL_PROPAGATORS says. The
// engine understands the variable in the same way.
func propagator() propagation.TextMapPropagator {
	names := lo.Uniq(lo.Compact(lo.Map(strings.Split(os.Getenv("OTEL_PROPAGATORS"), ","), func(s string, _ int) string {
		return strings.TrimSpace(s)
	})))
	p, err := autoprop.TextMapPropagator(names...)
	if err != nil {
		slog.Warn("OTEL_PROPAGATORS: " + err.Error())
	}
	if len(names) == 0 || p == nil {
		return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	return p
}

// newExporter is nil when none is asked for. The console is stderr: stdout belongs to the handshake.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); kind {
	case "", "none":
		return nil, nil
	case "console":
		return stdouttrace.New(stdouttrace.WithWriter(os.Stderr))
	case "otlp":
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: want otlp, console or none", kind)
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	switch protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: want grpc or http/protobuf", protocol)
}

// serverOptions leave out go-plugin's own streams, whose spans would last as long as the plugin.
func (t *tracing) serverOptions() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithFilter(filters.All(filters.Not(filters.HealthCheck()), filters.Not(filters.ServicePrefix("plugin.")))),
	))}
}

// answerTime is how long the end of the process waits for calls that are being answered.
const answerTime = stopTime / 4

// stop sends what is left, with the span of the last answer: it ends a moment after the answer has gone, and the engine may
// have stopped the plugin by then.
func (t *tracing) stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	t.answers.settle(answerTime)
	_ = t.provider.Shutdown(ctx) // the engine may be gone, and with it the one to tell
}

// answers counts the calls whose spans have not ended.
type answers struct{ open atomic.Int64 }

func (a *answers) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if s.SpanKind() == trace.SpanKindServer {
		a.open.Add(1)
	}
}

func (a *answers) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanKind() == trace.SpanKindServer {
		a.open.Add(-1)
	}
}

func (*answers) Shutdown(context.Context) error   { return nil }
func (*answers) ForceFlush(context.Context) error { return nil }

// settle waits until there are none, for no longer than most.
func (a *answers) settle(most time.Duration) {
	for end := time.Now().Add(most); a.open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

var _ sdktrace.SpanProcessor = (*answers)(nil)
