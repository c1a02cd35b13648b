// Package telemetrytest is an OTLP collector for tests: a real gRPC server that keeps what it is sent.
package telemetrytest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// Collector receives traces and metrics over OTLP/gRPC. Its methods may be called from any goroutine; a program has
// delivered everything once it has shut its telemetry down or ended.
type Collector struct {
	endpoint string

	mu      sync.Mutex
	spans   []Span
	metrics []Point
}

// Start serves on a free port of the loopback interface until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start a collector: %v", err)
	}
	c := &Collector{endpoint: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(server, traceService{collector: c})
	metricspb.RegisterMetricsServiceServer(server, metricsService{collector: c})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // a test that skips stops it before it serves
			t.Errorf("collector: %v", err)
		}
	})
	return c
}

// Endpoint is the value for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *Collector) Endpoint() string { return c.endpoint }

// Environ are the variables, as NAME=value, that make a program send its traces and metrics here.
func (c *Collector) Environ() []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp",
		"OTEL_METRICS_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.endpoint,
	}
}

// Spans are the spans received, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Metrics are the data points received last of every metric and attribute set, sorted.
func (c *Collector) Metrics() []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return latest(c.metrics)
}

type traceService struct {
	tracepb.UnimplementedTraceServiceServer
	collector *Collector
}

// Export keeps the spans.
func (s traceService) Export(_ context.Context, req *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	s.collector.mu.Lock()
	defer s.collector.mu.Unlock()
	s.collector.spans = append(s.collector.spans, spansOf(req)...)
	return &tracepb.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metricspb.UnimplementedMetricsServiceServer
	collector *Collector
}

// Export keeps the data points.
func (s metricsService) Export(_ context.Context, req *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	s.collector.mu.Lock()
	defer s.collector.mu.Unlock()
	s.collector.metrics = append(s.collector.metrics, pointsOf(req)...)
	return &metricspb.ExportMetricsServiceResponse{}, nil
}
