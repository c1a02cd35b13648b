package plugin

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// grpcPlugin is the server half of go-plugin's idea of a plugin.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server *pluginv1.Server
}

func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pluginv1.RegisterPluginServiceServer(s, p.server)
	return nil
}

func (*grpcPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is not its own client")
}

var _ goplugin.GRPCPlugin = (*grpcPlugin)(nil)
