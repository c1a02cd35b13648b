package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weir-project/weir/engine/terminal"
)

// The exporters' names and the OTLP protocols, as the OpenTelemetry specification spells them.
const (
	exporterNone       = "none"
	exporterOTLP       = "otlp"
	exporterConsole    = "console"
	exporterPrometheus = "prometheus"

	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// signal is TRACES or METRICS, as it occurs in the names of variables.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
)

func (s signal) exporterVariable() string { return "OTEL_" + string(s) + "_EXPORTER" }

// otlp is the value of OTEL_EXPORTER_OTLP_<signal>_<setting> or else of the variable for all signals.
func (s signal) otlp(setting string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_"+setting), os.Getenv("OTEL_EXPORTER_OTLP_"+setting))
}

// exporter is the name of the exporter asked for. An endpoint alone asks for OTLP. The standard's own default, OTLP to
// localhost, would give everybody without a collector an error.
func (s signal) exporter(configured, endpoint string) string {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return exporterNone
	}
	name := cmp.Or(os.Getenv(s.exporterVariable()), configured)
	switch {
	case name != "":
		return name
	case s.otlp("ENDPOINT") != "" || endpoint != "":
		return exporterOTLP
	}
	return exporterNone
}

// spanExporter is nil if nobody asks for traces. Console exporters write to standard error, because standard output
// belongs to the results of the program and of its ranks.
func (s Settings) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch name := traces.exporter(s.Traces, s.Endpoint); name {
	case exporterNone:
		return nil, nil
	case exporterConsole:
		return stdouttrace.New(stdouttrace.WithWriter(terminal.New(os.Stderr)))
	case exporterOTLP:
		return s.otlpSpans(ctx)
	default:
		return nil, unknownExporter(traces, name, exporterOTLP, exporterConsole, exporterNone)
	}
}

// metricReader is nil if nobody asks for metrics.
func (s Settings) metricReader(ctx context.Context) (sdkmetric.Reader, error) {
	switch name := metrics.exporter(s.Metrics, s.Endpoint); {
	case name == exporterNone:
		return nil, nil
	case name == exporterConsole:
		e, err := stdoutmetric.New(stdoutmetric.WithWriter(terminal.New(os.Stderr)))
		if err != nil {
			return nil, err
		}
		return sdkmetric.NewPeriodicReader(e), nil
	case name == exporterOTLP:
		e, err := s.otlpMetrics(ctx)
		if err != nil {
			return nil, err
		}
		return sdkmetric.NewPeriodicReader(e), nil
	case name == exporterPrometheus && os.Getenv(metrics.exporterVariable()) != "":
		return autoexport.NewMetricReader(ctx)
	case name == exporterPrometheus:
		return nil, fmt.Errorf("exporter %q is set up by variables only: set %s=%s", name, metrics.exporterVariable(), name)
	default:
		return nil, unknownExporter(metrics, name, exporterOTLP, exporterConsole, exporterPrometheus, exporterNone)
	}
}

func (s Settings) otlpSpans(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol, endpoint, err := s.otlp(traces, "v1/traces")
	switch {
	case err != nil:
		return nil, err
	case protocol == protocolGRPC && endpoint == "":
		return otlptracegrpc.New(ctx)
	case protocol == protocolGRPC:
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	case endpoint == "":
		return otlptracehttp.New(ctx)
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
}

func (s Settings) otlpMetrics(ctx context.Context) (sdkmetric.Exporter, error) {
	protocol, endpoint, err := s.otlp(metrics, "v1/metrics")
	switch {
	case err != nil:
		return nil, err
	case protocol == protocolGRPC && endpoint == "":
		return otlpmetricgrpc.New(ctx)
	case protocol == protocolGRPC:
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(endpoint))
	case endpoint == "":
		return otlpmetrichttp.New(ctx)
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(endpoint))
}

// otlp is how to reach the collector. endpoint is "" if the exporter is to take it from its variables, which an option
// would override.
func (s Settings) otlp(sig signal, path string) (protocol, endpoint string, err error) {
	protocol = cmp.Or(sig.otlp("PROTOCOL"), s.Protocol, s.usualProtocol(sig))
	if protocol != protocolGRPC && protocol != protocolHTTP {
		return "", "", fmt.Errorf("unknown OTLP protocol %q, want %s or %s", protocol, protocolGRPC, protocolHTTP)
	}
	if given := sig.otlp("ENDPOINT"); given != "" {
		_, err := endpointURL(given)
		return protocol, "", err
	}
	if s.Endpoint == "" {
		return protocol, "", nil
	}
	u, err := endpointURL(s.Endpoint)
	if err != nil {
		return "", "", err
	}
	if protocol == protocolHTTP {
		u = u.JoinPath(path)
	}
	return protocol, u.String(), nil
}

// usualProtocol is the standard's default, except that a configured endpoint on the port of OTLP over gRPC means that.
func (s Settings) usualProtocol(sig signal) string {
	if u, err := url.Parse(s.Endpoint); err == nil && u.Port() == "4317" && sig.otlp("ENDPOINT") == "" {
		return protocolGRPC
	}
	return protocolHTTP
}

func endpointURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("OTLP endpoint %q is not a URL, want one such as http://localhost:4318", s)
	}
	return u, nil
}

func unknownExporter(sig signal, name string, known ...string) error {
	where := "the configuration"
	if os.Getenv(sig.exporterVariable()) != "" {
		where = sig.exporterVariable()
	}
	return fmt.Errorf("unknown exporter %q in %s, want one of %s", name, where, strings.Join(known, ", "))
}

// Variables are what makes a child process send its traces where this one does, for what the settings decide and the
// environment, which a child inherits, does not. Empty if nobody asks for traces.
func (s Settings) Variables() map[string]string {
	name := traces.exporter(s.Traces, s.Endpoint)
	if name == exporterNone {
		return nil
	}
	vars := map[string]string{traces.exporterVariable(): name}
	if name == exporterOTLP {
		vars["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = cmp.Or(traces.otlp("PROTOCOL"), s.Protocol, s.usualProtocol(traces))
		if s.Endpoint != "" && traces.otlp("ENDPOINT") == "" {
			vars["OTEL_EXPORTER_OTLP_ENDPOINT"] = s.Endpoint
		}
	}
	return vars
}
