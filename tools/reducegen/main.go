// Command reducegen writes the vector kernels of sdk/internal/reduce as Go assembly, and their declarations.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("reducegen: ")
	flags := flag.NewFlagSet("reducegen", flag.ExitOnError) // avo has taken names of the common one
	out := flags.String("out", filepath.FromSlash("../sdk/internal/reduce"), "folder of the package")
	check := flags.Bool("check", false, "write nothing, fail if a file is not what would be written")
	_ = flags.Parse(os.Args[1:]) // exits by itself
	if err := run(*out, *check); err != nil {
		log.Fatal(err)
	}
}

func run(out string, check bool) error {
	files, err := generate()
	if err != nil {
		return err
	}
	var stale []error
	for name, text := range files {
		path := filepath.Join(out, name)
		if !check {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
			continue
		}
		if have, err := os.ReadFile(path); err != nil {
			stale = append(stale, err)
		} else if !bytes.Equal(have, text) {
			stale = append(stale, fmt.Errorf("%s is not up to date: run ./task generate", path))
		}
	}
	return errors.Join(stale...)
}
