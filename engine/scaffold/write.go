package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Write writes the files to a folder that is new or empty.
func Write(dir string, files []File) error {
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		if info, e := os.Stat(dir); e == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file: name a new folder", dir)
		}
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: name a new folder", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		mode := fs.FileMode(0o666)
		if f.Executable {
			mode = 0o755 // the engine refuses what everybody may change
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, mode); err != nil {
			return err
		}
	}
	return nil
}

// tidyTime bounds `go mod tidy`, which may ask a module proxy.
const tidyTime = 2 * time.Minute

// Tidy has Go take out of the folder's go.mod and go.sum what its backend does not need. Without Go nothing changes. The
// folder is complete before: an error, such as that a proxy cannot be reached, is no reason not to go on.
func Tidy(ctx context.Context, dir string) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "mod", "tidy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("go mod tidy: %w: %s", err, lines[len(lines)-1])
	}
	return nil
}
