package cli

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
	"github.com/weir-project/weir/tests/harness"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestTraceOfACascade runs ranks with a plugin before shm whose plan is refused, and compares what a collector received.
func TestTraceOfACascade(t *testing.T) {
	collector := telemetrytest.Start(t)
	env := append(collector.Environ(), "WEIR_PLUGINS__BAD__PATH="+filepath.Join(harness.Bin, "programs", "badplugin"), "WEIR_PLUGINS__BAD__ENV__BAD=impossible plan",
		"TRACEPARENT=00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-n", "2", "--", "calls", "-calls", "200").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	got := collector.Tree(telemetrytest.View{Keep: telemetrytest.FromEngine, Mask: func(key, value string) string {
		if key == "weir.ranges" {
			return regexp.MustCompile(`\d+ (B|KiB)`).ReplaceAllString(value, "N")
		}
		return value
	}})
	golden := filepath.Join("testdata", "cascade.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	for _, s := range collector.Spans() {
		if s.Trace != "0123456789abcdef0123456789abcdef" {
			t.Errorf("span %s is not of the trace that weir was started in", s.Name)
		}
	}
	inPlugins := 0
	for _, s := range collector.Spans() {
		if strings.HasSuffix(s.Name, "/Accept") && !telemetrytest.FromEngine(s) {
			inPlugins++
		}
	}
	if inPlugins != 6 { // bad, shm-flat, shm-twoshot: asked by the engine and answered in the plugin
		t.Errorf("%d spans of Accept calls, want 6: the context must cross to the plugins", inPlugins)
	}
}

// TestTraceContextOfAnotherKind starts weir inside a trace whose context is Zipkin's, and follows it into the plugins.
func TestTraceContextOfAnotherKind(t *testing.T) {
	collector := telemetrytest.Start(t)
	env := append(collector.Environ(), "OTEL_PROPAGATORS=b3", "B3=0123456789abcdef0123456789abcdef-0123456789abcdef-1",
		"TRACEPARENT=00-11111111111111111111111111111111-1111111111111111-01")
	out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-n", "1", "--", "calls", "-calls", "1").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	inPlugins := 0
	for _, s := range collector.Spans() {
		if s.Trace != "0123456789abcdef0123456789abcdef" && !strings.HasSuffix(s.Name, "/Describe") {
			t.Errorf("span %s is not of the trace that weir was started in, but of %s", s.Name, s.Trace)
		}
		if strings.HasSuffix(s.Name, "/Accept") && !telemetrytest.FromEngine(s) {
			inPlugins++
		}
	}
	if inPlugins == 0 {
		t.Error("no span of an Accept call in a plugin")
	}
}

// TestMetricsOfCalls holds that the calls that no span records are counted.
func TestMetricsOfCalls(t *testing.T) {
	collector := telemetrytest.Start(t)
	out, err := harness.Weir(t, harness.RunFolder(t), collector.Environ(), "run", "-n", "2", "--", "calls", "-calls", "200", "-elements", "4").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", err, out)
	}
	series := "weir.backend=shm-flat weir.data_type=float32 weir.group=g1 weir.memory=host weir.mode=eager weir.op=sum"
	for _, want := range []string{
		"weir.all_reduce.calls 201 {call} " + series,
		"weir.all_reduce.io 3216 By " + series,
		"weir.all_reduce.duration 6 samples s " + series, // every 64th of 201 calls, on two ranks
		"weir.decisions 1 {decision} weir.outcome=served",
	} {
		found := false
		var all []string
		for _, p := range collector.Metrics() {
			found = found || p.String() == want
			all = append(all, p.String())
		}
		if !found {
			t.Errorf("no metric %q among\n%s", want, strings.Join(all, "\n"))
		}
	}
}
