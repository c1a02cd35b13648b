// Command shm is the plugin for ranks of one host without GPUs: they all-reduce through memory that they share.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	own := shared{&settings{}}
	os.Exit(plugin.Serve(plugin.Plugin{
		Name:      "shm",
		Version:   "0.1.0",
		Backends:  []backend.Backend{direct{own}, flat{own}, twoShot{own}},
		Configure: func(s plugin.Settings) error { return s.Decode(own.settings) },
	}))
}
