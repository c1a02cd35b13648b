package pluginhost_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
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

func (c *collect) all() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func (c *collect) names() []string {
	return lo.Map(c.all(), func(s *tracepb.Span, _ int) string { return s.GetName() })
}

// collecting is a collector and the variables that send a plugin's spans to it.
func collecting(t *testing.T) (*collect, map[string]string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := &collect{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, received)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
	return received, exportTo(lis)
}

func exportTo(lis net.Listener) map[string]string {
	return map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + lis.Addr().String(),
	}
}

// The spans of the plugin are children of the engine's, and go-plugin's own streams are in neither's trace.
func TestTraceCrossesToThePlugin(t *testing.T) {
	received, env := collecting(t)
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	opts, log := options(t)
	opts.TracerProvider, opts.Propagator = provider, propagation.TraceContext{}
	s := spec(t, "flat", "good")
	maps.Copy(s.Env, env)
	h := start(t, opts, s)
	ctx, span := provider.Tracer("test").Start(t.Context(), "resolve")
	if _, err := h.Candidates()[0].Backend.Accept(ctx, hostRequest()); err != nil {
		t.Fatal(err)
	}
	span.End()
	h.Close() // though the plugin ends its span a moment after the answer has gone

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
	if got := received.names(); len(got) != 2 {
		t.Errorf("the plugin sent %q, want 2 spans\n%s", got, log)
	}
	for _, s := range received.all() {
		if string(s.GetParentSpanId()) != ours[s.GetName()] {
			t.Errorf("%s is not a child of the engine's span", s.GetName())
		}
	}
}

// A plugin that is stopped while it answers, or right after, sends the span of that call too.
func TestTraceOfTheLastCall(t *testing.T) {
	received, env := collecting(t)
	opts, log := options(t)
	opts.TracerProvider, opts.Propagator = sdktrace.NewTracerProvider(), propagation.TraceContext{}
	s := spec(t, "flat", "good:accept-late")
	maps.Copy(s.Env, env)
	h := start(t, opts, s)
	ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(50*time.Millisecond))
	defer cancel()
	_, _ = h.Candidates()[0].Backend.Accept(ctx, hostRequest()) // on a loaded machine the answer may have come
	h.Close()
	if got := received.names(); !slices.Contains(got, "weir.plugin.v1.PluginService/Accept") {
		t.Errorf("the plugin sent %q, and no span of Accept\n%s", got, log)
	}
}

// The end of a plugin is not held up by a call that never ends, nor by a collector that never answers.
func TestTraceThatCannotBeSentHoldsNothingUp(t *testing.T) {
	if require.Raced {
		t.Skip("a plugin has two seconds to end, of which this one needs more than one, and the race detector makes it slow")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // whose connections nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	opts, log := options(t)
	opts.TracerProvider = sdktrace.NewTracerProvider()
	s := spec(t, "flat", "good:accept-hang")
	maps.Copy(s.Env, exportTo(silent))
	h := start(t, opts, s)
	ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(50*time.Millisecond))
	defer cancel()
	_, _ = h.Candidates()[0].Backend.Accept(ctx, hostRequest())
	h.Close()
	if said := log.String(); strings.Contains(said, "failed to exit gracefully") || strings.Contains(said, "could not be stopped") {
		t.Errorf("the plugin had to be killed:\n%s", said)
	}
}

// Either side obeys OTEL_PROPAGATORS: what the engine writes, the plugin reads.
func TestTraceCrossesAsTheVariableSays(t *testing.T) {
	for given, c := range map[string]struct {
		ours    propagation.TextMapPropagator
		crosses bool
	}{
		"b3":                  {lo.Must(autoprop.TextMapPropagator("b3")), true},
		" baggage , b3multi ": {lo.Must(autoprop.TextMapPropagator("b3multi")), true},
		"pigeon":              {propagation.TraceContext{}, true}, // neither knows it
		"none":                {propagation.TraceContext{}, false},
		"baggage":             {propagation.TraceContext{}, false},
	} {
		t.Run(given, func(t *testing.T) {
			received, env := collecting(t)
			opts, _ := options(t)
			provider := sdktrace.NewTracerProvider()
			opts.TracerProvider, opts.Propagator = provider, c.ours
			s := spec(t, "flat", "good")
			maps.Copy(s.Env, env)
			s.Env["OTEL_PROPAGATORS"] = given
			ctx, span := provider.Tracer("test").Start(t.Context(), "resolve")
			h := start(t, opts, s)
			if _, err := h.Candidates()[0].Backend.Accept(ctx, hostRequest()); err != nil {
				t.Fatal(err)
			}
			span.End()
			h.Close()
			ours := span.SpanContext().TraceID()
			for _, s := range received.all() {
				if s.GetName() == "weir.plugin.v1.PluginService/Accept" {
					if got := string(s.GetTraceId()) == string(ours[:]); got != c.crosses {
						t.Errorf("the plugin's span is in the engine's trace: %t, want %t", got, c.crosses)
					}
					return
				}
			}
			t.Error("no span of Accept")
		})
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
