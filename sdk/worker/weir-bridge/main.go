// Command weir-bridge speaks gRPC for a worker that is written in a language without it. The worker starts it with one end
// of a connected pair of sockets as descriptor 4, says in one line what it offers, and is told of groups in others:
// docs/authors/languages.md. examples/backend-c is a worker that does.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

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

func main() {
	b, err := connect(pairFD, leave)
	if err != nil {
		fmt.Fprintf(os.Stderr, "weir-bridge: %s\n", err)
		os.Exit(1)
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: b.about.Name, Version: b.about.Version, Backends: []backend.Backend{b}}))
}
