// Command push is the plugin of GPU kernels by which ranks of one host send their data to one another: peer to peer, or by way
// of host memory.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func backends() []backend.Backend { return []backend.Backend{oneShot{}, twoShot{}, hostStaged{}} }

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{
		Name:     "push",
		Version:  "0.1.0",
		Backends: backends(),
	}))
}
