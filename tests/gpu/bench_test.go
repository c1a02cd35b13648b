package gpu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
)

// program is the path of a program that was built, where `./task build` leaves it: above the test binary's folder, or in the
// repository.
func program(t *testing.T, name string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(filepath.Dir(exe)), "../../bin"} {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err == nil {
			return path
		}
	}
	require.Missing(t, "weir", name+" has not been built: ./task test:gpu builds it")
	return ""
}

// bench has two ranks all-reduce 1 KiB under weir, which may take a minute, and returns what it printed.
func bench(t *testing.T, variables ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.For(2*time.Minute))
	defer cancel()
	c := exec.CommandContext(ctx, program(t, "weir"), "bench", "--ranks", "2", "--memory", "cuda", "-b", "1K", "-e", "1K", "-n", "5")
	run, err := os.MkdirTemp("/tmp", "wt") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	c.Env = slices.Concat(environ(), []string{
		"XDG_CACHE_HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + run, "WEIR_GROUP__SHARE_DEVICES=true",
		"WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + findNCCL(t).Path,
	}, variables)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("weir bench: %v\n%s", err, out)
	}
	return string(out)
}

// environ is the environment without the variables of these tests, which weir refuses as configuration that it does not know.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_GPU_") })
}

// servedBy is the backend in the last column of a table without wrong results.
func servedBy(out string) string {
	if !strings.Contains(out, "# Out of bounds values : 0 OK") {
		return ""
	}
	row := regexp.MustCompile(`(?m)^ +1024 .* (\S+)$`).FindStringSubmatch(out)
	if row == nil {
		return ""
	}
	return row[1]
}
