// Command push is the plugin of GPU kernels by which ranks of one host send their data to one another: peer to peer, or by way
// of host memory.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	own := shared{&settings{}}
	os.Exit(plugin.Serve(plugin.Plugin{
		Name:      "push",
		Version:   "0.1.0",
		Backends:  []backend.Backend{oneShot{own}, twoShot{own}, hostStaged{own}},
		Configure: func(s plugin.Settings) error { return s.Decode(own.settings) },
	}))
}
