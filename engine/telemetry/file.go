package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weir-project/weir/engine/files"
)

// fileDelay is the longest that an ended span waits before it is written.
const fileDelay = time.Second

// fileExporter is nil if no file is configured, or a variable switches traces off.
func (s Settings) fileExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv(traces.exporterVariable()) == exporterNone
	if s.File == "" || off {
		return nil, nil
	}
	f, err := files.Append(s.File, 0o644)
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, &traceFile{file: f})
}

// traceFile writes one ExportTraceServiceRequest a line, as the OpenTelemetry collector's file exporter does.
type traceFile struct {
	mu   sync.Mutex
	file *os.File
}

// Start does nothing: the file is open.
func (t *traceFile) Start(context.Context) error { return nil }

// Stop closes the file.
func (t *traceFile) Stop(context.Context) error { return t.file.Close() }

// UploadTraces writes a line. It is one write at the end of the file, so that engines may share the file.
func (t *traceFile) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	line, err := marshalTraces(&collectorpb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.file.SetWriteDeadline(time.Now().Add(shutdownTimeout)) // of a pipe that is not read; a file on a disk has none and needs none
	if _, err := t.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("trace file: %w", err)
	}
	return nil
}
