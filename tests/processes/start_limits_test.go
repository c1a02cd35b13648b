package processes

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// oneLine holds that a command is refused in one line. Where Go's own runtime finds no room before weir begins, which depends on how
// many threads it has by then, nothing is held, and that is tried again.
func oneLine(t *testing.T, want string, command func() (*exec.Cmd, string)) {
	t.Helper()
	const tries = 10
	for range tries {
		cmd, folder := command()
		out, err := cmd.CombinedOutput()
		text := string(out)
		if left := harness.Leftovers(folder); len(left) > 0 {
			t.Errorf("%s: left behind: %v", cmd, left)
		}
		if strings.HasPrefix(text, "fakecgo: pthread_create failed") || strings.HasPrefix(text, "runtime: failed to create new OS thread") || strings.HasPrefix(text, "fatal error: ") {
			continue
		}
		if err == nil || !regexp.MustCompile("^weir: "+want+"\n$").MatchString(text) {
			t.Errorf("%s: %v\n%.2000s", cmd, err, text)
		}
		return
	}
	t.Skipf("Go does not begin under this limit here, in %d tries", tries)
}

// starting are commands that start processes.
var starting = []string{"run -n 3 -- badrank nothing", "explain --ranks 2", "plugins list", "agent --ranks 2", "bench --ranks 2"}

// TestTooFewProcessesToStart: where it is clear from the start that they do not do, one line says so, and what is needed.
func TestTooFewProcessesToStart(t *testing.T) {
	require.Tool(t, "prlimit")
	for _, c := range starting {
		t.Run(c, func(t *testing.T) {
			oneLine(t, `this user may have 12 processes and threads and has \d+; .* take some \d+ more: raise the limit \(ulimit -u, .*\)`, func() (*exec.Cmd, string) {
				return asNobody(t, nil, "exec prlimit --nproc=12 weir "+c)
			})
		})
	}
}

// TestFewAddresses: with a limit on addresses one line says so.
func TestFewAddresses(t *testing.T) {
	require.Tool(t, "prlimit")
	for _, limit := range []string{"1000000000", "1200000000", "1500000000"} {
		for _, c := range starting {
			t.Run(limit+" "+c, func(t *testing.T) {
				oneLine(t, `a process may have \d+ MiB of addresses; the engine and each plugin take some \d+ MiB, .*: raise the limit \(ulimit -v\)`, func() (*exec.Cmd, string) {
					folder := harness.RunFolder(t)
					cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec prlimit --as="+limit+" weir "+c)
					cmd.Env = harness.Weir(t, folder, nil).Env
					return cmd, folder
				})
			})
		}
	}
}

// TestNoProc: without /proc the error says what is missing and how it comes back.
func TestNoProc(t *testing.T) {
	require.Tool(t, "unshare")
	if os.Geteuid() != 0 {
		require.Missing(t, "root", "only root can take /proc away")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "-m", "umount", "-l", "/proc").CombinedOutput(); err != nil {
		t.Skipf("/proc cannot be taken away here: %s", out)
	}
	folder := harness.RunFolder(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", "umount -l /proc; exec weir run -q -n 2 -- badrank nothing")
	cmd.Env = harness.Weir(t, folder, nil).Env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/proc is not mounted: mount it (mount -t proc proc /proc)") {
		t.Errorf("without /proc: %v\n%s", err, out)
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
