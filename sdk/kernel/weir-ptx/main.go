// Command weir-ptx compiles CUDA sources to PTX: weir-ptx [-D NAME[=VALUE]]... [-o FOLDER] SOURCE.cu...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/weir-project/weir/sdk/kernel/ptx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var defines []string
	flag.Func("D", "define a macro", func(d string) error { defines = append(defines, d); return nil })
	folder := flag.String("o", "", "folder to write to; that of the source if empty")
	suffix := flag.String("suffix", "", "put after the name, before .ptx")
	flag.Parse()
	for _, source := range flag.Args() {
		if err := build(ctx, source, *folder, *suffix, defines); err != nil {
			fmt.Fprintf(os.Stderr, "weir-ptx: %s\n", err)
			os.Exit(1)
		}
	}
}

func build(ctx context.Context, source, folder, suffix string, defines []string) error {
	text, err := ptx.Build(ctx, source, defines...)
	if err != nil {
		return err
	}
	if folder == "" {
		folder = filepath.Dir(source)
	}
	name := strings.TrimSuffix(filepath.Base(source), ".cu") + suffix + ".ptx"
	return os.WriteFile(filepath.Join(folder, name), text, 0o644) // a source file as others are
}
