package telemetry

import "testing"

func TestOTLP(t *testing.T) {
	for name, c := range map[string]struct {
		settings           Settings
		env                map[string]string
		protocol, endpoint string
	}{
		"nothing said":            {protocol: "http/protobuf"},
		"endpoint":                {settings: Settings{Endpoint: "http://c:4318/base"}, protocol: "http/protobuf", endpoint: "http://c:4318/base/v1/traces"},
		"port of gRPC":            {settings: Settings{Endpoint: "http://c:4317"}, protocol: "grpc", endpoint: "http://c:4317"},
		"HTTP on the port anyway": {settings: Settings{Endpoint: "http://c:4317", Protocol: "http/protobuf"}, protocol: "http/protobuf", endpoint: "http://c:4317/v1/traces"},
		"endpoint by variable":    {settings: Settings{Endpoint: "http://c:4317"}, env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://d:4318"}, protocol: "http/protobuf"},
		"protocol by variable":    {settings: Settings{Endpoint: "http://c:1", Protocol: "http/protobuf"}, env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, protocol: "grpc", endpoint: "http://c:1"},
		"the signal's own":        {env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, protocol: "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			protocol, endpoint, err := c.settings.otlp(traces, "v1/traces")
			if err != nil || protocol != c.protocol || endpoint != c.endpoint {
				t.Errorf("got %s at %q (%v), want %s at %q", protocol, endpoint, err, c.protocol, c.endpoint)
			}
		})
	}
}
