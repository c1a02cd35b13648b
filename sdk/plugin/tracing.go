package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// tracing is nil when nobody asked for it: nothing is installed then, and nothing costs anything.
type tracing struct{ provider *sdktrace.TracerProvider }

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
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return &tracing{provider: provider}, nil
}

// newExporter is nil when none is asked for. The console is stderr: stdout belongs to the handshake.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
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

// stop sends what is left.
func (t *tracing) stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the engine may be gone, and with it the one to tell
}
