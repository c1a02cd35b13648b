package telemetry_test

import (
	"os"
	"strings"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
)

// TestMain keeps the variables of whoever runs the tests out of them.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// resolveNothing records one weir.resolve.
func resolveNothing(t *testing.T, tel *telemetry.Telemetry) {
	t.Helper()
	_, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), collective.HostGroup("world", 1), hostSum)
	r.End(dispatch.Decision{}, nil)
}

func TestSetupInstallsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		settings telemetry.Settings
		env      map[string]string
	}{
		"unset":                    {},
		"none":                     {settings: telemetry.Settings{Traces: "none", Metrics: "none", Endpoint: "http://localhost:1"}},
		"variables win":            {settings: telemetry.Settings{Traces: "otlp", Metrics: "otlp"}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}},
		"explicitly off":           {settings: telemetry.Settings{Endpoint: "http://localhost:1"}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"none despite an endpoint": {settings: telemetry.Settings{Traces: "none", Metrics: "none"}, env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			tel, err := telemetry.Setup(t.Context(), c.settings)
			if err != nil {
				t.Fatal(err)
			}
			if tel.Enabled() {
				t.Error("enabled")
			}
			if _, ok := tel.TracerProvider.(tracenoop.TracerProvider); !ok {
				t.Errorf("tracer provider is %T", tel.TracerProvider)
			}
			if _, ok := tel.MeterProvider.(metricnoop.MeterProvider); !ok {
				t.Errorf("meter provider is %T", tel.MeterProvider)
			}
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSetupFromVariables(t *testing.T) {
	c := telemetrytest.Start(t)
	for _, v := range c.Environ() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("OTEL_SERVICE_NAME", "named-by-variable")
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{
		Traces: "console", Metrics: "none", Endpoint: "http://localhost:1", Protocol: "http/protobuf", ServiceName: "weir",
	})
	if err != nil {
		t.Fatal(err)
	}
	resolveNothing(t, tel)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Service != "named-by-variable" {
		t.Errorf("received %+v, want one span of the service that the variable names", spans)
	}
}

// An endpoint is enough to ask for traces: the exporter's variable has no other purpose then.
func TestEndpointAsksForOTLP(t *testing.T) {
	c := telemetrytest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint())
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{Metrics: "none"})
	if err != nil {
		t.Fatal(err)
	}
	resolveNothing(t, tel)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Spans()); n != 1 {
		t.Errorf("received %d spans, want 1", n)
	}
}

func TestSetupRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		settings telemetry.Settings
		env      map[string]string
		want     string
	}{
		"exporter":                  {settings: telemetry.Settings{Traces: "jaeger"}, want: `traces: unknown exporter "jaeger" in the configuration, want one of otlp, console, none`},
		"exporter in a variable":    {env: map[string]string{"OTEL_METRICS_EXPORTER": "statsd"}, settings: telemetry.Settings{Traces: "console"}, want: `metrics: unknown exporter "statsd" in OTEL_METRICS_EXPORTER, want one of otlp, console, prometheus, none`},
		"prometheus by settings":    {settings: telemetry.Settings{Metrics: "prometheus"}, want: `metrics: exporter "prometheus" is set up by variables only: set OTEL_METRICS_EXPORTER=prometheus`},
		"protocol":                  {settings: telemetry.Settings{Traces: "otlp", Protocol: "http/json"}, want: `traces: unknown OTLP protocol "http/json", want grpc or http/protobuf`},
		"endpoint without a scheme": {settings: telemetry.Settings{Endpoint: "localhost:4317"}, want: `traces: OTLP endpoint "localhost:4317" is not a URL, want one such as http://localhost:4318`},
		"endpoint in a variable":    {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, want: `traces: OTLP endpoint "collector" is not a URL, want one such as http://localhost:4318`},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			_, err := telemetry.Setup(t.Context(), c.settings)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Standard output belongs to the program's results.
func TestConsoleKeepsOffStandardOutput(t *testing.T) {
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = tempFile(t), tempFile(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	t.Setenv("OTEL_METRICS_EXPORTER", "console")
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	resolveNothing(t, tel)
	m, err := telemetry.NewMeter(tel.MeterProvider)
	if err != nil {
		t.Fatal(err)
	}
	m.Decided(t.Context(), dispatch.Decision{}, dispatch.Policy{}, nil)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := content(t, os.Stdout); out != "" {
		t.Errorf("on standard output: %s", out)
	}
	console := content(t, os.Stderr)
	for _, want := range []string{"weir.resolve", "weir.decisions"} {
		if !strings.Contains(console, want) {
			t.Errorf("standard error lacks %s", want)
		}
	}
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPrometheusByVariable(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "prometheus")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "127.0.0.1")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, none := tel.MeterProvider.(metricnoop.MeterProvider); none || !tel.Enabled() {
		t.Error("metrics are not enabled")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that is not there is an error at the end, within the deadline, and never one at the start.
func TestShutdownWithoutCollector(t *testing.T) {
	tel, err := telemetry.Setup(t.Context(), telemetry.Settings{Endpoint: "http://127.0.0.1:1", Protocol: "http/protobuf"})
	if err != nil {
		t.Fatal(err)
	}
	resolveNothing(t, tel)
	if err := tel.Shutdown(t.Context()); err == nil {
		t.Error("shut down without an error although nothing was delivered")
	}
}
