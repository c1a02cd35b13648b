package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// bin is where the programs under test are, laid out as `./task build` lays them out.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	// Some tests run ranks as goroutines, which spin: each needs a thread of its own.
	runtime.GOMAXPROCS(16)
	for _, b := range []struct {
		dir      string
		packages []string
	}{
		{"", []string{"engine/cmd/weir", "examples/verify-pass"}},
		{"plugins", []string{"plugins/..."}},
		{"", []string{"sdk/worker/weir-bridge"}},
		{"examples", []string{"examples/backend-..."}},
		{"programs", []string{"tests/programs/..."}},
	} {
		args := []string{"build", "-buildvcs=false", "-o", filepath.Join(dir, b.dir) + "/"}
		for _, p := range b.packages {
			args = append(args, module+p)
		}
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go %v: %s\n%s", args, err, out)
			return 1
		}
	}
	return m.Run()
}
