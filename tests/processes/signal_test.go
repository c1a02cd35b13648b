package processes

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// TestSignalsLeaveNothing ends the engine in the middle of a run, in every way that it can be ended.
func TestSignalsLeaveNothing(t *testing.T) {
	for _, test := range []struct {
		signal syscall.Signal
		code   int // -1: killed by the signal itself
		stderr string
	}{
		{syscall.SIGINT, 130, "weir: ended by signal 2 (interrupt)"},
		{syscall.SIGTERM, 143, "weir: ended by signal 15 (terminated)"},
		{syscall.SIGKILL, -1, ""},
	} {
		for _, program := range []string{"loops", "never joins"} {
			t.Run(test.signal.String()+" "+program, func(t *testing.T) {
				folder := harness.RunFolder(t)
				var stderr strings.Builder
				// A shell between the engine and each rank, so that the ranks are not the engine's own children.
				cmd := harness.Weir(t, folder, nil, "run", "-q", "-n", "3", "--", "sh", "-c", "echo started; badrank '"+program+"'; true")
				cmd.Stderr = &stderr
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(stdout)
				for lines.Scan() && lines.Text() != map[string]string{"loops": "looping", "never joins": "started"}[program] {
				}
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
				for lines.Scan() { // ends when nobody holds standard output any more
				}
				err = cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != test.code {
					t.Errorf("ended with %v, want code %d", err, test.code)
				}
				if !strings.Contains(stderr.String(), test.stderr) {
					t.Errorf("stderr %q, want %q", stderr.String(), test.stderr)
				}
				for _, complaint := range []string{"level=ERROR", "level=WARN", "are kept"} { // nothing has failed
					if strings.Contains(stderr.String(), complaint) {
						t.Errorf("stderr has %s:\n%s", complaint, stderr.String())
					}
				}
				if left := harness.Leftovers(folder); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// killPlugins kills the plugins of a run and says how many there were.
func killPlugins(folder string) (n int) {
	for pid, line := range harness.ProcessesOf(folder) {
		if strings.HasPrefix(line, filepath.Join(harness.Bin, "plugins")+"/") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// TestPluginThatDies holds that a decided class needs no plugin; that one decided while its plugins are dead declines their
// backends; and that one decided later asks those that were started in their place.
func TestPluginThatDies(t *testing.T) {
	for name, c := range map[string]struct {
		restart, disabled string
		fails             bool
		want              []string
	}{
		"stays dead":              {"1h", "builtin", true, []string{"no backend serves host int32 max eager", "shm-flat: decline; PLUGIN_CRASHED"}},
		"stays dead, Weir serves": {"1h", "", false, []string{"builtin      weir    accept   all sizes"}},
		"is restarted":            {"1ms", "", false, []string{"plugin was restarted"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := harness.RunFolder(t)
			var stderr strings.Builder
			cmd := harness.Weir(t, folder, []string{"WEIR_RESTART__FIRST=" + c.restart, "WEIR_RESTART__LONGEST=1h", "WEIR_CASCADE__DISABLED=" + c.disabled}, "run", "-n", "2", "--", "badrank", "outlives plugins")
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && lines.Text() != "decided" {
			}
			if n := killPlugins(folder); n < 2 {
				t.Fatalf("found %d plugins to kill", n)
			}
			for lines.Scan() {
			}
			if err := cmd.Wait(); (err != nil) != c.fails {
				t.Errorf("ended with %v", err)
			}
			for _, want := range append(c.want, "a million decided calls went well") {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr.String())
				}
			}
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
