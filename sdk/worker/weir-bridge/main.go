// Command weir-bridge speaks gRPC for a worker that is written in a language without it. The worker starts it with one end
// of a connected pair of sockets as descriptor 4, says in one line what it offers, and is told of groups in others:
// docs/authors/languages.md. examples/backend-c is a worker that does.
package main

import (
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

// leave ends this process when its worker has ended. An engine has ended it by then; without one the signal has Serve stop,
// which removes the socket.
func leave() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(time.Second)
	os.Exit(1)
}

// complain says why there is no plugin: to an engine as a line of its log, which is an error there too.
func complain(err error) {
	engine := os.Getenv("PLUGIN_PROTOCOL_VERSIONS") != ""
	hclog.New(&hclog.LoggerOptions{Name: "weir-bridge", Output: os.Stderr, JSONFormat: engine, DisableTime: !engine}).Error(err.Error())
}

func main() {
	b, err := connect(pairFD, leave)
	if err != nil {
		complain(err)
		os.Exit(1)
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: b.about.Name, Version: b.about.Version, Backends: []backend.Backend{b}}))
}
