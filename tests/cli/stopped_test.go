package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestStoppedEngine holds that an engine that a signal has stopped is said to run, and what makes it go on.
func TestStoppedEngine(t *testing.T) {
	folder, home := harness.RunFolder(t), t.TempDir()
	env := []string{"HOME=" + home}
	engine := func() (pid int, flag string) {
		run := harness.Weir(t, folder, env, "run", "-q", "-n", "2", "--", "badrank", "loops")
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = run.Process.Signal(syscall.SIGCONT)
			_ = run.Process.Signal(syscall.SIGTERM)
			_ = run.Wait()
		})
		flag = "--pid=" + strconv.Itoa(run.Process.Pid)
		await.Until(t, "the engine answers", func() bool { return harness.Weir(t, folder, env, "status", flag).Run() == nil })
		return run.Process.Pid, flag
	}
	pid, flag := engine()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	words := fmt.Sprintf("the engine that runs as process %d does not answer: a signal has stopped it (SIGSTOP, or Ctrl-Z in its terminal); continue it with kill -CONT %[1]d", pid)
	var asked sync.WaitGroup
	for _, command := range []string{"status", "dump", "plugins reload shm", "status --format json"} {
		asked.Go(func() { // side by side, as each waits for a while
			out, err := harness.Weir(t, folder, env, append(strings.Fields(command), flag)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), words) || strings.Contains(string(out), "no engine") {
				t.Errorf("weir %s of a stopped engine: %v\n%s", command, err, out)
			}
		})
	}
	asked.Wait()
	// What runs beside it is shown, and the word on the other does not go between the values of JSON.
	other, _ := engine()
	var stderr strings.Builder
	status := harness.Weir(t, folder, env, "status", "--format", "json")
	status.Stderr = &stderr
	out, err := status.Output()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf(`"pid": %d`, other)) || strings.Contains(string(out), "CONT") || !strings.Contains(stderr.String(), words) {
		t.Errorf("beside another: %v\n%s%s", err, out, stderr.String())
	}
	if out, err := harness.Weir(t, folder, env, "plugins", "reload", "shm").CombinedOutput(); err == nil || !regexp.MustCompile(`several engines run, as processes .*\b`+strconv.Itoa(pid)+`\b`).Match(out) {
		t.Errorf("reload of one of two: %v\n%s", err, out)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the engine goes on", func() bool { return harness.Weir(t, folder, env, "status", flag).Run() == nil })
}
