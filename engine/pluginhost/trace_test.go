package pluginhost_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collect is an OTLP server that keeps what it gets.
type collect struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (c *collect) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range in.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// The spans of the plugin are children of the engine's, and go-plugin's own streams are in neither's trace.
func TestTraceCrossesToThePlugin(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := &collect{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, received)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()

	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	opts, log := options(t)
	opts.TracerProvider = provider
	s := spec(t, "flat", "good")
	s.Env["OTEL_TRACES_EXPORTER"], s.Env["OTEL_EXPORTER_OTLP_PROTOCOL"] = "otlp", "grpc"
	s.Env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://" + lis.Addr().String()
	h := start(t, opts, s)
	ctx, span := provider.Tracer("test").Start(t.Context(), "resolve")
	if _, err := h.Candidates()[0].Backend.Accept(ctx, hostRequest()); err != nil {
		t.Fatal(err)
	}
	span.End()
	time.Sleep(200 * time.Millisecond) // the plugin ends its span a moment after the answer has gone
	h.Close()                          // which the plugin answers with what spans it has

	ours := map[string]string{} // span id of a call, by its name
	for _, s := range recorder.Ended() {
		id := s.SpanContext().SpanID()
		ours[s.Name()] = string(id[:])
	}
	want := []string{"resolve", "weir.plugin.v1.PluginService/Accept", "weir.plugin.v1.PluginService/Describe"}
	got := make([]string, 0, len(ours))
	for name := range ours {
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	received.mu.Lock()
	defer received.mu.Unlock()
	if len(received.spans) != 2 {
		t.Errorf("the plugin sent %d spans, want 2\n%s", len(received.spans), log)
	}
	for _, s := range received.spans {
		if string(s.GetParentSpanId()) != ours[s.GetName()] {
			t.Errorf("%s is not a child of the engine's span", s.GetName())
		}
	}
}

// A console exporter would break the handshake if it wrote to stdout.
func TestConsoleExporterKeepsOffStdout(t *testing.T) {
	opts, _ := options(t)
	s := spec(t, "flat", "good")
	s.Env["OTEL_TRACES_EXPORTER"] = "console"
	h := start(t, opts, s)
	if f := h.Candidates()[0].Fault; f != nil {
		t.Error(f)
	}
}
