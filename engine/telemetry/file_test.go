package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/telemetry"
)

// writeFile records a resolution into a new trace file.
func writeFile(t *testing.T, s telemetry.Settings, record func(*telemetry.Telemetry)) string {
	t.Helper()
	s.File = filepath.Join(t.TempDir(), "traces.jsonl")
	if s.ServiceName == "" {
		s.ServiceName = "weir-test"
	}
	tel, err := telemetry.Setup(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	record(tel)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.File
}

func resolveOnce(t *testing.T) func(*telemetry.Telemetry) {
	return func(tel *telemetry.Telemetry) {
		candidates, policy := everything()
		ctx, r := telemetry.NewTracer(tel.TracerProvider).Start(t.Context(), collective.HostGroup("world", 3), hostSum)
		d := r.Resolve(ctx, candidates, dispatch.Options{Policy: policy})
		now := time.Now()
		reason := backend.Reason{Code: backend.SelfTestFailed, Rank: 1, Observed: "3", Required: "6"}
		r.RankStep(telemetry.RankStep{Step: telemetry.SelfTest, Rank: 1, Backend: "small", Start: now, End: now, Reason: &reason})
		_, _ = r.Plan(ctx, "large", func(context.Context) (plan.Plan, error) { return nil, errors.New("out of plans") })
		r.End(d, nil)
	}
}

func TestFileHoldsHexIDs(t *testing.T) {
	file := writeFile(t, telemetry.Settings{}, resolveOnce(t))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var m struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct {
						TraceID, SpanID, ParentSpanID string
						Kind                          any
						StartTimeUnixNano             string
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		spans := m.ResourceSpans[0].ScopeSpans[0].Spans
		if len(spans) == 0 {
			t.Error("no spans")
		}
		for _, s := range spans {
			if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(s.TraceID) || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(s.SpanID) ||
				s.ParentSpanID != "" && !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(s.ParentSpanID) {
				t.Errorf("ids are not hexadecimal: %+v", s)
			}
			if _, isNumber := s.Kind.(float64); !isNumber || !regexp.MustCompile(`^[0-9]+$`).MatchString(s.StartTimeUnixNano) {
				t.Errorf("enums are numbers and times are text in OTLP JSON: %+v", s)
			}
		}
	}
}

// TestReadTracesReadsTheFile compares with the decision that was recorded.
func TestReadTracesReadsTheFile(t *testing.T) {
	file := writeFile(t, telemetry.Settings{}, func(tel *telemetry.Telemetry) {
		resolveOnce(t)(tel)
		resolveOnce(t)(tel)
	})
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := telemetry.ReadTraces(f)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d decisions, error %v; want 2", len(all), err)
	}
	got := all[0]
	if got.TraceID == all[1].TraceID || all[1].Time.Before(got.Time) {
		t.Errorf("not two traces in the order of time: %s %s", got.TraceID, all[1].TraceID)
	}
	candidates, policy := everything()
	want := dispatch.Resolve(t.Context(), candidates, collective.HostGroup("world", 3), hostSum, dispatch.Options{Policy: policy})
	answers := func(d dispatch.Decision) map[string]string {
		m := map[string]string{}
		for _, a := range d.Answers {
			m[a.Backend+" of "+a.Plugin] = strings.ToValidUTF8(a.Verdict.String(), "\uFFFD") // as protobuf needs it
		}
		return m
	}
	read := map[string]string{}
	for _, a := range got.Answers {
		s := a.Verdict
		if s == string(backend.Accept) {
			s += " " + strings.Join(a.Ranges, ", ")
		}
		for _, r := range a.Reasons {
			s += "; " + r.String()
		}
		read[a.Backend+" of "+a.Plugin] = s
	}
	if diff := cmp.Diff(answers(want), read); diff != "" {
		t.Errorf("answers (-recorded +read):\n%s", diff)
	}
	got.Answers, got.TraceID, got.Time, got.Seconds = nil, "", time.Time{}, 0
	if diff := cmp.Diff(telemetry.Traced{
		Service: "weir-test", Group: "world", WorldSize: 3, Link: "HOST", Memory: "host", DataType: "bfloat16", Op: "sum", Mode: "eager",
		Backends: got.Backends, Faults: []telemetry.TracedFault{
			{Step: "weir.selftest", Backend: "small", Rank: 1, Error: "SELFTEST_FAILED on rank 1: 3, needs 6"},
			{Step: "weir.plan", Backend: "large", Rank: -1, Error: "OTHER (out of plans)"},
		},
	}, got, cmp.Transformer("fallback", func(x telemetry.Traced) telemetry.Traced { x.Fallback = false; return x })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Backends) == 0 {
		t.Error("no backend serves")
	}
}

// collectorFile is what the collector's file exporter writes: spans of other programs, other signals, base64 nowhere,
// one trace over several lines and unknown fields.
const collectorFile = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"weir"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b175","parentSpanId":"eee19b7ec3c1b174","flags":257,"name":"weir.accept","kind":1,"startTimeUnixNano":"1544712660000000100","endTimeUnixNano":"1544712660000000200","attributes":[{"key":"weir.backend","value":{"stringValue":"ring"}},{"key":"weir.plugin","value":{"stringValue":"mine"}},{"key":"weir.verdict","value":{"stringValue":"decline"}},{"key":"weir.reason.codes","value":{"arrayValue":{"values":[{"stringValue":"ARCH"}]}}},{"key":"weir.reason.observed","value":{"arrayValue":{"values":[{"stringValue":"8.0"}]}}},{"key":"weir.reason.required","value":{"arrayValue":{"values":[{"stringValue":"9.0+"}]}}},{"key":"weir.reason.ranks","value":{"arrayValue":{"values":[{"intValue":"3"}]}}}],"status":{}},{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b199","name":"GET /","kind":2,"startTimeUnixNano":"1","endTimeUnixNano":"2","status":{}}]}],"schemaUrl":"https://opentelemetry.io/schemas/1.43.0","newField":true}]}
{"resourceMetrics":[{"resource":{},"scopeMetrics":[]}]}
{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"weir"}}]},"scopeSpans":[{"scope":{},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"","name":"weir.resolve","kind":1,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661500000000","attributes":[{"key":"weir.group","value":{"stringValue":"0"}},{"key":"weir.world_size","value":{"intValue":"8"}},{"key":"weir.link","value":{"stringValue":"NV18"}}],"status":{"code":2,"message":"no backend is left"}}]}]}]}
`

func TestReadTracesOfACollector(t *testing.T) {
	all, err := telemetry.ReadTraces(strings.NewReader(collectorFile))
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	three := 3
	want := telemetry.Traced{
		TraceID: "5b8efff798038103d269b633813fc60c", Time: time.Unix(1544712660, 0).UTC(), Seconds: 1.5, Service: "weir", Group: "0", WorldSize: 8, Link: "NV18",
		Backends: []string{}, Error: "no backend is left", Faults: []telemetry.TracedFault{},
		Answers: []telemetry.TracedAnswer{{
			Backend: "ring", Plugin: "mine", Verdict: "decline", Ranges: []string{},
			Reasons: []telemetry.TracedReason{{Code: "ARCH", Observed: "8.0", Required: "9.0+", Rank: &three}},
		}},
	}
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadTracesOfBadFiles(t *testing.T) {
	lines := strings.SplitAfter(collectorFile, "\n")
	cut := lines[2] + lines[0][:len(lines[0])/2]
	if all, err := telemetry.ReadTraces(strings.NewReader(cut)); !errors.Is(err, telemetry.ErrCut) || len(all) != 1 {
		t.Errorf("a file that is cut gives %d decisions, error %v", len(all), err)
	}
	for text, want := range map[string]string{
		"\x1f\x8b\x08":        "entry 1 is not JSON",
		"{} hello":            "entry 2 is not JSON",
		`[1]`:                 "entry 1 is not OTLP JSON",
		`{"resourceSpans":7}`: "entry 1 is not OTLP JSON",
		strings.Replace(lines[2], "5b8e", "5bzz", 1): `traceId "5bzz`,
	} {
		if _, err := telemetry.ReadTraces(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want %s", text, err, want)
		}
	}
	if all, err := telemetry.ReadTraces(strings.NewReader("")); err != nil || len(all) != 0 {
		t.Errorf("an empty file: %v, %v", all, err)
	}
}

// TestVariablesSwitchTheFileOff: the standard variables win over the file, if what they say is to record nothing.
func TestVariablesSwitchTheFileOff(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		written         bool
	}{
		{"OTEL_SDK_DISABLED", "true", false},
		{"OTEL_SDK_DISABLED", "TRUE", false},
		{"OTEL_SDK_DISABLED", "false", true},
		{"OTEL_TRACES_EXPORTER", "none", false},
		{"OTEL_METRICS_EXPORTER", "none", true},
		{"OTEL_SERVICE_NAME", "other", true},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			data, _ := os.ReadFile(writeFile(t, telemetry.Settings{}, resolveOnce(t)))
			if written := len(data) > 0; written != c.written {
				t.Errorf("written: %v, want %v", written, c.written)
			}
			if c.value == "other" && !strings.Contains(string(data), `"other"`) {
				t.Error("OTEL_SERVICE_NAME does not name the service")
			}
		})
	}
}

func TestFileIsAppendedTo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.jsonl")
	for range 2 {
		tel, err := telemetry.Setup(t.Context(), telemetry.Settings{File: file, ServiceName: "weir"})
		if err != nil {
			t.Fatal(err)
		}
		if !tel.Enabled() {
			t.Error("nothing is recorded")
		}
		resolveOnce(t)(tel)
		if err := tel.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if all, err := telemetry.ReadTraces(f); err != nil || len(all) != 2 {
		t.Errorf("%d decisions of two runs, %v", len(all), err)
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	_, err := telemetry.Setup(t.Context(), telemetry.Settings{File: filepath.Join(t.TempDir(), "no", "t.jsonl")})
	if err == nil || !strings.Contains(err.Error(), "no/t.jsonl") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func FuzzReadTraces(f *testing.F) {
	f.Add(collectorFile)
	f.Add(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"weir.resolve","attributes":[{"key":"weir.backends"}]}]}]}]}`)
	f.Add(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"weir.accept","traceId":null,"attributes":[null]}]}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := telemetry.ReadTraces(strings.NewReader(text)); err != nil && !errors.Is(err, telemetry.ErrCut) && all != nil {
			t.Errorf("%d decisions with the error %v", len(all), err)
		}
	})
}
