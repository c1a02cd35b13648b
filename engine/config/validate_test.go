package config

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	for name, c := range map[string]struct{ yaml, want string }{
		"zero deadline":     {"group:\n  deadline: 0s\n", "weir.yaml:2: group.deadline is 0s; it must be greater than zero"},
		"negative deadline": {"deadlines:\n  self_test: -1m\n", "weir.yaml:2: deadlines.self_test is -1m; it must be greater than zero"},
		"zero size":         {"shared:\n  max_bytes: 0B\n", "weir.yaml:2: shared.max_bytes is 0B; it must be greater than zero"},
		"order twice":       {"cascade:\n  order:\n  - a\n  - a\n", "weir.yaml:2: cascade.order names a twice"},
		"disabled twice":    {"cascade: {disabled: [a, b, b]}\n", "weir.yaml:1: cascade.disabled names b twice"},
		"backend name":      {"cascade: {order: [Shm]}\n", `weir.yaml:1: cascade.order names the backend "Shm"; names consist of lower-case letters, digits and "-"`},
		"fallback name":     {"cascade: {fallback: {cuda: a_b}}\n", `weir.yaml:1: cascade.fallback.cuda names the backend "a_b"; names consist of lower-case letters, digits and "-"`},
		"short checksum":    {"plugins: {x: {path: x, sha256: abc}}\n", `weir.yaml:1: plugins.x.sha256 is "abc"; it must be 64 hexadecimal digits, as sha256sum prints them`},
		"exporter":          {"telemetry: {traces: jaeger}\n", `weir.yaml:1: telemetry.traces is "jaeger"; use one of none, otlp, console`},
		"metrics exporter":  {"telemetry: {metrics: OTLP}\n", `weir.yaml:1: telemetry.metrics is "OTLP"; use one of none, otlp, console`},
		"endpoint":          {"telemetry: {endpoint: \"localhost:4317\"}\n", `weir.yaml:1: telemetry.endpoint is "localhost:4317"; it must be a URL such as http://localhost:4317`},
		"service":           {"telemetry: {service_name: \"\"}\n", "weir.yaml:1: telemetry.service_name is empty"},
		"level":             {"log: {level: INFO}\n", `weir.yaml:1: log.level is "INFO"; use one of debug, info, warn, error`},
		"format":            {"log: {format: xml}\n", `weir.yaml:1: log.format is "xml"; use one of text, json`},
		"socket":            {"agent: {socket: " + long + "}\n", "weir.yaml:1: agent.socket is 108 bytes long; the path of a Unix socket has at most 107"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.yaml, nil)
			wantError(t, err, c.want)
		})
	}
}

// A backend may be ordered and disabled at once: --disable is how one tries without it.
func TestDisabledAndOrdered(t *testing.T) {
	mustLoad(t, "cascade: {order: [a, nccl]}\n", nil, "--disable=nccl")
}

func TestDefaultsAreValid(t *testing.T) {
	if err := (&Loaded{Config: Default("")}).Validate(); err != nil {
		t.Error(err)
	}
}
