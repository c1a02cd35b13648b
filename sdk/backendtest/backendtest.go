// Package backendtest is the conformance suite for a test of an author's own: `weir plugins test` in one call.
package backendtest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// Run holds a backend to the rules of sdk/conformance, which docs/authors/testing.md describes, as subtests of t: first as it
// is, then, under "wire", as the engine meets it, over gRPC in memory. It asks about groups that the backend's requirements
// say it serves, so facts of this machine play no part. Schedule and worker plans are run, by goroutines as ranks; what runs
// on GPUs is checked for shape. Rules about a plugin's process are for `weir plugins test`.
//
// Run may raise GOMAXPROCS, since ranks wait for each other.
func Run(t *testing.T, b backend.Backend) {
	t.Helper()
	hold := func(t *testing.T, b backend.Backend, skip func(conformance.Rule) bool) {
		t.Helper()
		p := conformance.Plugin{Backends: []backend.Backend{b}}.Remembering()
		for _, r := range conformance.Rules() {
			if r.Process || !r.Concerns(b.Info().Kind) || skip(r) {
				continue
			}
			t.Run(r.Name, func(t *testing.T) {
				switch x := conformance.Check(t.Context(), r, p, b, conformance.Options{}); x.Outcome {
				case conformance.Failed:
					t.Errorf("expected: %s\nseen: %s\nsee: %s", x.Want, x.Got, x.See)
				case conformance.Skipped:
					t.Skip(x.Got)
				}
			})
		}
	}
	hold(t, b, func(conformance.Rule) bool { return false })
	t.Run("wire", func(t *testing.T) {
		hold(t, overWire(t, b), func(r conformance.Rule) bool { return r.Runs }) // the plans are the same
	})
}

// overWire is the backend behind gRPC in memory.
func overWire(t *testing.T, b backend.Backend) backend.Backend {
	t.Helper()
	service, err := pluginv1.NewServer(pluginv1.ServerConfig{Name: "backendtest", Version: "0", Backends: []backend.Backend{b}})
	if err != nil {
		t.Fatal(err)
	}
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	pluginv1.RegisterPluginServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pluginv1.MaxAnswer)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	client := pluginv1.NewPluginServiceClient(conn)
	offer, err := pluginv1.Describe(t.Context(), context.Background(), client, nil)
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	return pluginv1.NewRemote(client, offer.Backends[0], pluginv1.RemoteOptions{})
}
