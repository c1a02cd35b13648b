// Command weir is the engine: it starts plugins and ranks, decides which backend runs each all-reduce, and says why.
package main

import (
	"os"

	"github.com/weir-project/weir/engine/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
