// Package ptx compiles CUDA sources to PTX with clang, and tells whether a PTX text belongs to its sources.
package ptx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weir-project/weir/sdk/kernel"
)

// Compiler is the clang that builds. It needs neither CUDA's headers nor its libraries, so any machine can build the same
// text.
const Compiler = "clang-19"

// flags: the oldest GPU that is served, and the oldest PTX version that has every instruction (drivers of CUDA 11.0 and
// newer take it; those of newer GPUs compile it for them).
var flags = strings.Fields("-x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -Xclang -target-feature -Xclang +ptx70 -O3 -std=c++17 -Wall -Wextra -Werror -S -o -")

// Command is what Build runs, in the folder of the source; weir_kernel.h is in the folder include.
func Command(source, include string, defines ...string) []string {
	args := append([]string{Compiler}, flags...)
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	return append(args, "-I"+include, source)
}

// Build compiles a source file. Beside what it includes of its own folder it may include weir_kernel.h alone.
func Build(ctx context.Context, source string, defines ...string) ([]byte, error) {
	stamp, err := stampOf(os.DirFS(filepath.Dir(source)), filepath.Base(source), defines)
	if err != nil {
		return nil, err
	}
	include, err := os.MkdirTemp("", "weir-ptx-")
	if err != nil {
		return nil, err
	}
	text, err := compile(ctx, source, include, defines)
	if e := os.RemoveAll(include); err == nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", source, err)
	}
	version, err := Version(ctx)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{[]byte("// " + version + "\n"), []byte(stamp), text}, nil), nil
}

func compile(ctx context.Context, source, include string, defines []string) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(include, kernel.HeaderName), []byte(kernel.Header), 0o600); err != nil {
		return nil, err
	}
	args := Command(filepath.Base(source), include, defines...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Dir(source)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, wrong.Bytes())
	}
	return text, nil
}

// Version is the first line of what the compiler says of itself.
func Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, Compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", Compiler, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// Check says whether a text was built from a source of files: whether it carries the hash of the source, of all that it
// includes and of the command.
func Check(text []byte, files fs.FS, source string, defines ...string) error {
	stamp, err := stampOf(files, source, defines)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte("\n"+stamp)) {
		return fmt.Errorf("the PTX was not built from %s as it is now: run ./task kernels", source)
	}
	return nil
}

// stampOf is the comment that binds a text to what it was built from.
func stampOf(files fs.FS, source string, defines []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, strings.Join(Command(source, ".", defines...), " "))
	if err := hashAll(files, source, map[string]bool{}, func(name string, text []byte) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}); err != nil {
		return "", err
	}
	return fmt.Sprintf("// %s sha256:%x\n", source, h.Sum(nil)), nil
}

var includes = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// hashAll visits a file and what it includes, each once, in the order of inclusion.
func hashAll(files fs.FS, name string, seen map[string]bool, visit func(string, []byte)) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	text, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) && path.Base(name) == kernel.HeaderName {
		text, err = []byte(kernel.Header), nil
	}
	if err != nil {
		return err
	}
	visit(name, text)
	for _, m := range includes.FindAllSubmatch(text, -1) {
		if err := hashAll(files, path.Join(path.Dir(name), string(m[1])), seen, visit); err != nil {
			return err
		}
	}
	return nil
}
