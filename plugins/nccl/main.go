// Command nccl is the plugin of the fallback: NCCL, or another library with its ABI, found and vetted outside the ranks.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	library := newLibrary()
	os.Exit(plugin.Serve(plugin.Plugin{
		Name: "nccl", Version: "0.1.0",
		Backends:  []backend.Backend{library},
		Configure: func(s plugin.Settings) error { return library.configure(s.Decode) },
	}))
}
