package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// afterKill is what became of the rank that was killed.
var afterKill = regexp.MustCompile(`failed: rank 1 (\(process \d+\) has ended|has left the group; rank 1 began all-reduce \d+|was killed by signal 9 \(killed\); it began all-reduce \d+)`)

// TestStatusAndDump asks a running engine what it does, then kills a rank and looks at the calls that were kept.
func TestStatusAndDump(t *testing.T) {
	folder, home := harness.RunFolder(t), t.TempDir()
	env := []string{"HOME=" + home}
	ask := func(args ...string) string {
		t.Helper()
		out, err := harness.Weir(t, folder, env, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	alone := ask("status") // engines of this user are found in /tmp too
	if alone != "no engine of this user runs\n" && !strings.Contains(alone, ", ranks join at ") || strings.Contains(alone, folder) {
		t.Errorf("without an engine: %q", alone)
	}
	run := harness.Weir(t, folder, env, "run", "-q", "-n", "2", "--", "badrank", "loops")
	var stderr strings.Builder
	run.Stderr = &stderr
	stdout, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "looping" {
	}
	var runs []struct {
		PID    int
		Groups []struct {
			Ranks []struct {
				PID   int
				Calls uint64
			}
			Classes []struct {
				Class    string
				Backends []struct {
					Backend, Serves string
					Calls           uint64
				}
			}
		}
	}
	await.Until(t, "the status shows calls", func() bool {
		if err := json.Unmarshal([]byte(ask("status", "--format", "json", "--pid", strconv.Itoa(run.Process.Pid))), &runs); err != nil {
			t.Fatal(err)
		}
		g := runs[0].Groups
		return len(g) == 1 && len(g[0].Classes) == 2 && g[0].Classes[1].Backends[0].Calls > 10
	})
	g := runs[0].Groups[0]
	if c := g.Classes[1]; runs[0].PID != run.Process.Pid || len(g.Ranks) != 2 || c.Class != "host float32 max eager" || c.Backends[0].Backend != "shm-flat" || c.Backends[0].Serves == "" {
		t.Errorf("status %+v", runs)
	}
	for args, patterns := range map[string][]string{
		"status": {`(?m)^  plugin shm \S+, process \d+$`, `(?m)^  group g1 of 2 ranks, epoch 2$`, `(?m)^    1 +\d+ +\d+ +(idle|in all-reduce \d+ of)`, `host float32 max eager +2 +shm-flat +1 B to 16 KiB +\d+ +\d+`},
		"dump":   {`(?m)^group g1 of 2 ranks$`, `(?m)^rank 1, process \d+: `, `(?m)^  \d+ +host float32 max eager +\d+ +shm-flat +\d\d:\d\d:\d\d\.\d\d +under 10ms`},
	} {
		out := ask(args, "--pid", strconv.Itoa(run.Process.Pid))
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(out) {
				t.Errorf("weir %s lacks %s:\n%s", args, p, out)
			}
		}
	}
	if out, err := harness.Weir(t, folder, env, "status", "--pid", "1").CombinedOutput(); err == nil || !strings.Contains(string(out), "no engine of this user runs as process 1") {
		t.Errorf("another process's status: %v %s", err, out)
	}

	if err := syscall.Kill(g.Ranks[1].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := run.Wait(); err == nil {
		t.Error("a run whose rank was killed ended well")
	}
	files, _ := filepath.Glob(filepath.Join(home, ".local/state/weir/dumps/*-g1.json"))
	if len(files) != 1 || !strings.Contains(stderr.String(), "weir dump "+files[0]) {
		t.Fatalf("kept %v; the log:\n%s", files, stderr.String())
	}
	// An engine of this user that runs beside the tests is shown instead.
	if out := ask("dump"); !strings.Contains(ask("status"), ", ranks join at ") {
		if !strings.Contains(out, "no engine runs; this is "+files[0]) || !afterKill.MatchString(out) || !strings.Contains(out, "has not ended") {
			t.Errorf("the dump of the failed group:\n%s", out)
		}
	}
	if again := ask("dump", files[0]); !strings.Contains(again, "failed: rank 1") {
		t.Errorf("weir dump FILE:\n%s", again)
	}
	broken := filepath.Join(home, "x.json")
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Weir(t, folder, env, "dump", broken).CombinedOutput(); err == nil || !strings.Contains(string(out), "is not a dump of a group") {
		t.Errorf("a file that is no dump: %v %s", err, out)
	}
}
