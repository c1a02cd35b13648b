package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// bare serves without the SDK, as a program in another language does: without TLS and with no eye on the lifeline.
func bare(b backend.Backend, healthy bool) int {
	service, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "broken", Version: "1", Backends: []backend.Backend{b}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), fmt.Sprintf("broken-%d", os.Getpid()))
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := grpc.NewServer()
	pluginv1.RegisterPluginServiceServer(s, service)
	if healthy {
		h := health.NewServer()
		h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
		grpc_health_v1.RegisterHealthServer(s, h)
	}
	fmt.Printf("1|%d|unix|%s|grpc|\n", pluginv1.ProtocolVersion, path)
	if err := s.Serve(l); err != nil {
		return 1
	}
	return 0
}
