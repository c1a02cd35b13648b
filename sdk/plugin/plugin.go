// Package plugin is what the author of all-reduce backends needs: implement backend.Backend and hand it to Serve.
//
// A complete plugin is a backend.Backend and this main; see the example of Serve:
//
//	func main() {
//		os.Exit(plugin.Serve(plugin.Plugin{
//			Name: "ring", Version: "1.0.0",
//			Backends: []backend.Backend{ring{}},
//		}))
//	}
package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/samber/lo"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// Plugin is what an executable offers.
type Plugin struct {
	Name     string            // lower-case letters, digits and '-'
	Version  string            // for people
	Backends []backend.Backend // at least one; their names are unique

	// Configure receives the plugin's settings once, before any backend is asked anything but its Info; it may be
	// nil, and then every setting is an error. Its error stops the engine with that text, so it says what to mend.
	Configure func(Settings) error
}

// The exit codes of a plugin.
const (
	exitDone   = 0 // the engine has stopped the plugin or is gone
	exitBroken = 1 // the plugin is not right, or could not listen
	exitByHand = 2 // somebody other than the engine started it
)

// stopTime is how long the last words (spans, a connection being closed) may hold up the end of the process.
const stopTime = time.Second

// Serve serves the backends to the engine that started this process, until the engine stops it or is gone, and returns
// the process's exit code; main does nothing else than exit with it. What goes wrong is printed on stderr.
//
// Nothing may be printed on stdout before Serve: its first line is the engine's. slog's default logger writes to the
// engine's log from then on, and a panic in a backend becomes the error of that one call. SIGINT and SIGTERM are
// ignored, since the engine decides when a plugin is done.
//
// Started by hand with the engine's cookie in its environment (WEIR_PLUGIN=all-reduce-backend), as under a debugger, it
// prints the handshake and serves whoever attaches (weir run --attach) until SIGINT or SIGTERM.
func Serve(p Plugin) int {
	if os.Getenv(pluginv1.MagicCookieKey) != pluginv1.MagicCookieValue {
		fmt.Fprintln(os.Stderr, byHand(p))
		return exitByHand
	}
	if attachable() {
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
	} else {
		slog.SetDefault(newLogger(os.Stderr))
		defer ignoreSignals()()
	}
	server, err := pluginv1.NewServer(pluginv1.ServerConfig{
		Name: p.Name, Version: p.Version, Backends: p.Backends,
		Configure: configure(p, os.Stdout, os.Stderr),
	})
	if err != nil {
		slog.Error(err.Error())
		if !attachable() {
			_ = serve(pluginv1.Refusal(err), nil) // until the engine has heard it
		}
		return exitBroken
	}
	tracing, err := startTracing(p)
	if err != nil {
		slog.Warn("tracing is off: " + err.Error())
	}
	defer tracing.stop()
	if attachable() {
		fmt.Fprintf(os.Stderr, "%s waits for `weir run --attach %s=ADDRESS`; the address is in the next line, which may be given whole\n", p.Name, p.Name)
	}
	if err := serve(server, tracing.serverOptions()); err != nil {
		slog.Error(err.Error())
		return exitBroken
	}
	return exitDone
}

// configure is the first thing that happens after the handshake. It gives stdout and stderr back to the process:
// go-plugin sends what goes there over the connection, where the last words of a process that exits are lost.
func configure(p Plugin, stdout, stderr *os.File) func(map[string]any) error {
	return func(values map[string]any) error {
		os.Stdout, os.Stderr = stdout, stderr
		settings := Settings{values: values}
		if p.Configure == nil {
			return settings.Decode(&struct{}{})
		}
		return p.Configure(settings)
	}
}

// serve runs go-plugin's server until it ends or the lifeline does.
func serve(server *pluginv1.Server, extra []grpc.ServerOption) error {
	var (
		mu      sync.Mutex
		running *grpc.Server
	)
	done := make(chan struct{})
	go func() {
		defer close(done)
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig: goplugin.HandshakeConfig{
				MagicCookieKey: pluginv1.MagicCookieKey, MagicCookieValue: pluginv1.MagicCookieValue,
			},
			VersionedPlugins: map[int]goplugin.PluginSet{
				pluginv1.ProtocolVersion: {pluginv1.PluginType: &grpcPlugin{server: server}},
			},
			GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
				mu.Lock()
				defer mu.Unlock()
				running = grpc.NewServer(append(opts, extra...)...)
				return running
			},
			Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		})
	}()
	started := func() *grpc.Server {
		mu.Lock()
		defer mu.Unlock()
		return running
	}
	select {
	case <-done:
		if started() == nil {
			return errors.New("the plugin could not start to listen")
		}
	case <-over():
		if s := started(); s != nil {
			go s.Stop() // closes the listener, which removes the socket
		}
		select {
		case <-done:
		case <-time.After(stopTime):
		}
		removeSocketDir()
	}
	return nil
}

func byHand(p Plugin) string {
	names := lo.FilterMap(p.Backends, func(b backend.Backend, _ int) (string, bool) {
		return lo.TernaryF(b == nil, lo.Empty[string], func() string { return b.Info().Name }), b != nil
	})
	return fmt.Sprintf("%s is a plugin of Weir and offers the all-reduce backends %s. The engine starts it: put it into the folder "+
		"plugins/ beside the weir command, or name its path in weir.yaml, and see it with `weir plugins list`. To run it under a debugger set "+
		"%s=%s and have `weir run --attach` find it.",
		strings.TrimSpace(p.Name+" "+p.Version), strings.Join(names, ", "), pluginv1.MagicCookieKey, pluginv1.MagicCookieValue)
}
