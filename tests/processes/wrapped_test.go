package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// wrapped is a plugin that does something of its own, in shell, before it becomes the one for shared memory; and the variables of a
// configuration with it alone.
func wrapped(t *testing.T, folder, does string) (env []string) {
	t.Helper()
	require.Programs(t)
	path := filepath.Join(folder, "wrapped")
	script := fmt.Sprintf("#!/bin/sh\n%s\nexec %s/plugins/shm\n", does, harness.Bin)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"WEIR_PLUGIN_DIR=", "WEIR_PLUGINS__WRAPPED__PATH=" + path}
}

// TestPluginGetsNoSecrets: what the engine knows of collectors and of others stays with it, whatever its variable begins with.
func TestPluginGetsNoSecrets(t *testing.T) {
	folder := harness.RunFolder(t)
	seen := filepath.Join(folder, "seen")
	env := append(wrapped(t, folder, "env >"+seen),
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=hidden1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=api-key=hidden2", "NVIDIA_API_KEY=hidden3",
		"AWS_SECRET_ACCESS_KEY=hidden4", "HF_TOKEN=hidden5", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://me:hidden6@127.0.0.1:1",
		"OTEL_RESOURCE_ATTRIBUTES=team=shown1", "CUDA_VISIBLE_DEVICES=shown2")
	out, err := harness.Weir(t, folder, env, "run", "-n", "2", "--", "checked", "-calls", "20", "-op", "sum").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "rank 1: 20 calls, all right") {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hidden") || !strings.Contains(string(text), "team=shown1") || !strings.Contains(string(text), "shown2") {
		t.Errorf("the plugin's environment:\n%s", text)
	}
}

// lives reports whether a process is there and has not ended.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// TestSessionsOfPluginsEnd: a child of a plugin that has a session of its own ends with the run, also with one that is killed.
func TestSessionsOfPluginsEnd(t *testing.T) {
	require.Tool(t, "setsid")
	for name, end := range map[string]func(run *exec.Cmd) error{
		"terminated": func(run *exec.Cmd) error { return run.Process.Signal(syscall.SIGTERM) },
		"killed":     func(run *exec.Cmd) error { return run.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			folder := harness.RunFolder(t)
			told := filepath.Join(folder, "child")
			env := wrapped(t, folder, `setsid sh -c 'echo $$ >`+told+`.new; mv `+told+`.new `+told+`; exec sleep 1000' </dev/null >/dev/null 2>&1 &`)
			run := harness.Weir(t, folder, env, "run", "-q", "-n", "2", "--", "badrank", "loops")
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = run.Process.Kill() }()
			child := 0
			await.Until(t, "the child is there, and the engine answers", func() bool {
				text, _ := os.ReadFile(told)
				child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return child > 0 && harness.Weir(t, folder, env, "status", "--pid", strconv.Itoa(run.Process.Pid)).Run() == nil
			})
			defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
			if sid, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err != nil || !lives(child) || strings.Fields(string(sid))[5] != strconv.Itoa(child) {
				t.Fatalf("the child has no session of its own: %v %s", err, sid)
			}
			if err := end(run); err != nil {
				t.Fatal(err)
			}
			_ = run.Wait()
			await.Until(t, "the child has ended", func() bool { return !lives(child) })
		})
	}
}

// TestPluginsLinesAreLimited: a plugin that prints without end fills no log, which says how much it left out; calls go on.
func TestPluginsLinesAreLimited(t *testing.T) {
	folder := harness.RunFolder(t)
	env := wrapped(t, folder, "i=0; while [ $i -lt 20000 ]; do echo 'a line that a plugin prints' >&2; i=$((i+1)); done")
	out, err := harness.Weir(t, folder, env, "run", "-n", "2", "--", "checked", "-calls", "20", "-op", "sum").CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "rank 1: 20 calls, all right") {
		t.Errorf("%v\n%.3000s", err, text)
	}
	lines := strings.Count(text, "a line that a plugin prints")
	if lines == 0 || lines > 15000 { // a thousand in each of some windows, on a slow machine
		t.Errorf("%d of 20000 lines are logged", lines)
	}
	if !regexp.MustCompile(`more of this source was left out of the log.* suppressed=\d+`).MatchString(text) {
		t.Errorf("nothing says what was left out:\n%.1000s", text)
	}
}
