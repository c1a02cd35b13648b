package pluginhost

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// grpcPlugin is the client half of go-plugin's idea of a plugin.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (grpcPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the engine serves no backends")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pluginv1.NewPluginServiceClient(conn), nil
}

// dialOptions leave go-plugin's own streams out of the trace: their spans would last as long as the plugin.
func dialOptions(o Options) []grpc.DialOption {
	dial := []grpc.DialOption{
		grpc.WithIdleTimeout(0), // an idle connection that is closed would look like a plugin that is gone
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pluginv1.MaxAnswer)),
	}
	if o.TracerProvider == nil {
		return dial
	}
	propagator := o.Propagator
	if propagator == nil { // otelgrpc would take the process's own, which nobody sets
		propagator = propagation.NewCompositeTextMapPropagator()
	}
	return append(dial, grpc.WithStatsHandler(otelgrpc.NewClientHandler(
		otelgrpc.WithTracerProvider(o.TracerProvider),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithFilter(filters.All(filters.Not(filters.HealthCheck()), filters.Not(filters.ServicePrefix("plugin.")))),
	)))
}

var _ goplugin.GRPCPlugin = grpcPlugin{}
