// Package telemetry turns resolutions into OpenTelemetry traces and the ranks' counters into metrics.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Settings are the configuration's part. The standard OTEL_* variables of the process win over every field; File, which
// they know nothing like, only gives way to those that switch traces off.
type Settings struct {
	Traces   string // exporter of traces: otlp, console or none; "" asks for nothing unless Endpoint is set
	Metrics  string // exporter of metrics, likewise
	Endpoint string // base URL of an OTLP collector, such as http://localhost:4318; "" is the exporter's default
	Protocol string // of OTLP: grpc or http/protobuf; "" is grpc if Endpoint has port 4317, else http/protobuf
	File     string // traces are appended to it too, unless the variables switch traces off; "" for none

	ServiceName    string
	ServiceVersion string
}

// Telemetry is what a program hands to its parts. Nothing is registered globally. Its fields are never nil and may be
// used from any goroutine.
type Telemetry struct {
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator // of the trace context, to and from other processes

	shutdown []func(context.Context) error
}

// Disabled records nothing.
func Disabled() *Telemetry {
	return &Telemetry{
		TracerProvider: tracenoop.NewTracerProvider(),
		MeterProvider:  metricnoop.NewMeterProvider(),
		Propagator:     standardPropagator(),
	}
}

// Setup installs what the environment or else the settings ask for. A signal that nobody asks for gets the no-op
// provider, which costs next to nothing. An exporter that connects does so later and retries; only a wrong
// setting is an error here.
func Setup(ctx context.Context, s Settings) (*Telemetry, error) {
	t := Disabled()
	t.Propagator = propagator()
	spans, err := s.spanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if spans != nil {
		t.shutdown = append(t.shutdown, spans.Shutdown) // until a provider owns it
	}
	file, err := s.fileExporter(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("file: %w", err), t.Shutdown(ctx))
	}
	if file != nil {
		t.shutdown = append(t.shutdown, file.Shutdown)
	}
	reader, err := s.metricReader(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), t.Shutdown(ctx))
	}
	if spans == nil && file == nil && reader == nil {
		return t, nil
	}
	t.shutdown = nil
	res := s.resource(ctx)
	if spans != nil || file != nil {
		opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
		if spans != nil {
			opts = append(opts, sdktrace.WithBatcher(spans))
		}
		if file != nil {
			opts = append(opts, sdktrace.WithBatcher(file, sdktrace.WithBatchTimeout(fileDelay)))
		}
		p := sdktrace.NewTracerProvider(opts...)
		t.TracerProvider = p
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	if reader != nil {
		p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res))
		t.MeterProvider = p
		t.shutdown = append(t.shutdown, p.Shutdown)
	}
	return t, nil
}

// resource says who reports. What the environment says comes last and so wins; a part that cannot be found out is left
// out rather than an error.
func (s Settings) resource(ctx context.Context) *resource.Resource {
	r, _ := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithProcessPID(),
		resource.WithAttributes(semconv.ServiceName(s.ServiceName), semconv.ServiceVersion(s.ServiceVersion)),
		resource.WithFromEnv(),
	)
	return r
}

// Enabled reports whether anything is exported.
func (t *Telemetry) Enabled() bool { return len(t.shutdown) > 0 }

const shutdownTimeout = 5 * time.Second

// Shutdown exports what is left, waiting until ctx is done and 5 s at most. Call it once.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	var errs []error
	for _, stop := range t.shutdown {
		if err := stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("shut down telemetry: %w", err))
		}
	}
	return errors.Join(errs...)
}
