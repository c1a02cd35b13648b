package processes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// statusRank is a rank as `weir status --format json` has it.
type statusRank struct {
	Rank, PID int
	Calls     uint64
	Doing     string
	Lag       float64 `json:"lag_s"`
}

// ranksOf are the ranks of the first group of an engine, which has a folder; nil as long as it has none. Others of this user may run.
func ranksOf(t *testing.T, folder string, engine *exec.Cmd) []statusRank {
	t.Helper()
	var stderr strings.Builder
	status := harness.Weir(t, folder, nil, "status", "--format", "json", "--pid", strconv.Itoa(engine.Process.Pid))
	status.Stderr = &stderr
	out, err := status.Output()
	if err != nil && strings.Contains(stderr.String(), "no engine of this user runs as process") {
		return nil
	}
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var runs []struct {
		Groups []struct{ Ranks []statusRank }
	}
	if err := json.Unmarshal(out, &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) == 0 || len(runs[0].Groups) == 0 {
		return nil
	}
	return runs[0].Groups[0].Ranks
}

// TestSlowRank stops a rank for a while, then for good: first a warning with its lag, then, at the deadline, the error.
func TestSlowRank(t *testing.T) {
	collector := telemetrytest.Start(t)
	folder := harness.RunFolder(t)
	var log harness.Buffer
	run := harness.Weir(t, folder, append(collector.Environ(), "WEIR_GROUP__SLOW_AFTER=200ms", "WEIR_GROUP__DEADLINE=4s"), "run", "-q", "-n", "3", "--", "badrank", "loops")
	run.Stderr = &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var ranks []statusRank
	harness.Soon(t, "the ranks call", func() bool {
		ranks = ranksOf(t, folder, run)
		return len(ranks) == 3 && ranks[2].Calls > 10
	})
	slow := ranks[1].PID
	if err := syscall.Kill(slow, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.Soon(t, "the status shows the lag of rank 1", func() bool {
		ranks = ranksOf(t, folder, run)
		return ranks[1].Lag >= 0.2
	})
	if ranks[0].Lag != 0 || ranks[2].Lag != 0 || !strings.Contains(ranks[1].Doing, "; the others have waited ") {
		t.Errorf("status %+v", ranks)
	}
	if err := syscall.Kill(slow, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	harness.Soon(t, "it goes on", func() bool { return strings.Contains(log.String(), "a rank is slow no longer") })
	if ranks = ranksOf(t, folder, run); ranks[1].Lag != 0 {
		t.Errorf("status %+v", ranks)
	}
	warning := regexp.MustCompile(`level=WARN msg="a rank is slow" group=g1 rank=1 pid=\d+ lag=\d+ms call=\d+ last="all-reduce \d+ of 256 bytes, host float32 max eager"`)
	if !warning.MatchString(log.String()) {
		t.Errorf("no warning in\n%s", log.String())
	}
	if err := syscall.Kill(slow, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(slow, syscall.SIGCONT)
	if err := run.Wait(); err == nil {
		t.Error("a run with a rank that is stopped ended well")
	}
	_, second, _ := strings.Cut(log.String(), "a rank is slow no longer")
	warned, failed := warning.FindStringIndex(second), strings.Index(second, "group failed")
	if warned == nil || failed < warned[0] || !regexp.MustCompile(`rank 1 (did not begin|began) all-reduce \d+ .*within 4s`).MatchString(second) {
		t.Errorf("want a warning, then the error:\n%s", second)
	}
	if strings.Contains(log.String(), "a rank is slow\" group=g1 rank=0") || strings.Contains(log.String(), "a rank is slow\" group=g1 rank=2") {
		t.Errorf("a rank that waited is called slow:\n%s", log.String())
	}
	outcomes := map[string]bool{}
	for _, s := range collector.Spans() {
		if a := s.Attributes; s.Name == "weir.slow_rank" && a["weir.rank"] == "1" && strings.HasPrefix(a["weir.slow.last"], "\"all-reduce ") {
			outcomes[a["weir.outcome"]] = true
		}
	}
	if !outcomes["recovered"] || !outcomes["failed"] {
		t.Errorf("spans with outcomes %v", outcomes)
	}
	points := 0
	for _, p := range collector.Metrics() {
		if p.Metric == "weir.rank.lag" {
			points += int(p.Count)
		}
	}
	if points < 2 {
		t.Errorf("%d lags measured, want 2: %v", points, collector.Metrics())
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestJobStoppedAndContinued stops all of a job for longer than its ranks wait for each other, as a shell's Ctrl-Z or a frozen
// container does: it goes on as if nothing had been, by a schedule and on a device.
func TestJobStoppedAndContinued(t *testing.T) {
	deadline := await.For(2 * time.Second).Round(time.Second)
	for name, device := range map[string]bool{"host": false, "device": true} {
		t.Run(name, func(t *testing.T) {
			folder, end := harness.RunFolder(t), filepath.Join(t.TempDir(), "end")
			env := []string{"WEIR_GROUP__DEADLINE=" + deadline.String(), "XDG_CACHE_HOME=" + t.TempDir()}
			args := []string{"run", "-n", "3", "--", filepath.Join(harness.Bin, "programs", "checked"), "-max", "2000", "-pause", "30ms", "-until", end}
			if device {
				args, env = append(args, "-device"), append(env, "LD_LIBRARY_PATH="+harness.FakeLibraries(t), "FAKE_CUDA_DEVICES=3")
			}
			run := harness.Weir(t, folder, env, args...)
			run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var out harness.Buffer
			run.Stdout, run.Stderr = &out, &out
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			running := func(calls uint64) []int {
				var pids []int
				for _, r := range ranksOf(t, folder, run) {
					if r.Calls > calls {
						pids = append(pids, r.PID)
					}
				}
				return pids
			}
			var pids []int
			harness.Soon(t, "the ranks call", func() bool { pids = running(20); return len(pids) == 3 })
			pids = append(pids, run.Process.Pid)
			for range 2 {
				for _, pid := range pids {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(deadline + time.Second) // which is the test
				for _, pid := range pids {
					if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
				}
				calls := uint64(0)
				harness.Soon(t, "the ranks answer", func() bool {
					all := ranksOf(t, folder, run)
					for _, r := range all {
						calls = max(calls, r.Calls)
					}
					return len(all) == 3
				})
				harness.Soon(t, "the ranks go on", func() bool { return len(running(calls+20)) == 3 })
			}
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run.Wait(); err != nil || strings.Count(out.String(), ", all right\n") != 3 {
				t.Errorf("%v:\n%s", err, &out)
			}
		})
	}
}
