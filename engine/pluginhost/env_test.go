package pluginhost

import (
	"slices"
	"testing"
)

func TestSecretsStayWithTheEngine(t *testing.T) {
	for name, want := range map[string]bool{
		"PATH": true, "OTEL_TRACES_EXPORTER": true, "OTEL_EXPORTER_OTLP_ENDPOINT": true, "OTEL_EXPORTER_OTLP_CERTIFICATE": true, "NCCL_IB_PKEY": true,
		"CUDA_VISIBLE_DEVICES": true, "OTEL_RESOURCE_ATTRIBUTES": true,
		"OTEL_EXPORTER_OTLP_HEADERS": false, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": false, "OTEL_EXPORTER_OTLP_CLIENT_KEY": false,
		"OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE": false, "OTEL_EXPORTER_JAEGER_PASSWORD": false, "NVIDIA_API_KEY": false, "AWS_SECRET_ACCESS_KEY": false,
		"otel_exporter_otlp_headers": false,
	} {
		value := "x"
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			value = "https://me:secret@collector:4318"
		}
		if name != "PATH" {
			t.Setenv(name, value)
		}
		has := slices.ContainsFunc(environment(nil), func(kv string) bool { return len(kv) > len(name) && kv[:len(name)+1] == name+"=" })
		if has != want {
			t.Errorf("%s is passed on: %v, want %v", name, has, want)
		}
	}
	if env := environment(map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "named"}); !slices.Contains(env, "OTEL_EXPORTER_OTLP_HEADERS=named") {
		t.Error("what the configuration names is not passed on")
	}
	if !slices.Contains(environment(nil), "OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4318") {
		t.Error("the endpoint is not there, or with its user")
	}
}
