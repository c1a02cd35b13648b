// Command nccl is the plugin of the fallback: NCCL, or another library with its ABI, found and vetted outside the ranks.
package main

import (
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	library, symmetric := newLibrary(), newSymmetric()
	os.Exit(plugin.Serve(plugin.Plugin{
		Name: "nccl", Version: "0.1.0",
		Backends: []backend.Backend{library, symmetric},
		Configure: func(s plugin.Settings) error {
			if err := library.configure(s.Decode); err != nil {
				return err
			}
			symmetric.settings.Library = library.settings.Library
			return nil
		},
	}))
}
