package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
)

// AllRight is what each rank of the program checked prints in the end.
var AllRight = regexp.MustCompile(`(?m)^rank \d: (\d+) calls, all right$`)

// WeirRun is the output of ranks under weir run, which must succeed within some minutes.
func WeirRun(t testing.TB, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.For(2*time.Minute))
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(Bin, "weir"), append([]string{"run", "-q"}, args...)...)
	c.Env = append(os.Environ(), append([]string{"XDG_STATE_HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + RunFolder(t), "WEIR_GROUP__DEADLINE=1m"}, env...)...)
	c.WaitDelay = await.For(5 * time.Second)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("weir %s: %s\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Leftovers are the files in a run's folder and the processes that know of it, once they have had time to go.
func Leftovers(folder string) []string {
	var left []string
	await.Poll(await.For(10*time.Second), func() bool {
		left = nil
		files, _ := filepath.Glob(filepath.Join(folder, "*"))
		left = append(left, files...)
		for pid, line := range ProcessesOf(folder) {
			left = append(left, fmt.Sprintf("process %d (%s)", pid, line))
		}
		return len(left) == 0
	})
	return left
}

// ProcessesOf are the command lines of the processes that know of a run's folder, by process id.
func ProcessesOf(folder string) map[int]string {
	found := map[int]string{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		about, _ := os.ReadFile(filepath.Join(p, "environ")) // a process that has just ended has none
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(p)); err == nil && strings.Contains(string(about)+string(line), folder) {
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// Soon waits for what other processes bring about.
func Soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, what, ok)
}

// Weir is a command of the real engine with a folder of its own for sockets.
func Weir(t testing.TB, folder string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	require.Programs(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(Bin, "weir"), args...)
	cmd.Env = append([]string{
		"PATH=" + filepath.Join(Bin, "programs") + ":" + Bin + ":" + os.Getenv("PATH"), "HOME=", "XDG_RUNTIME_DIR=" + folder,
	}, env...)
	return cmd
}

// RunFolder is a short path for sockets.
func RunFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
