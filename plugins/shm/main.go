// Command shm is the plugin for ranks of one host without GPUs: they all-reduce through memory that they share.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{
		Name:     "shm",
		Version:  "0.1.0",
		Backends: []backend.Backend{flat{}, twoShot{}},
	}))
}
