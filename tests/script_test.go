package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weir-project/weir/tests/require"
)

// TestScripts runs testdata/*.txtar: command lines as a user types them, with the real programs.
func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestCases runs testdata/cases/*.txtar: reports in which the choice of an all-reduce backend mattered. Each holds what
// was pasted and the verdict or diagnosis that `weir explain` owes the reporter.
func TestCases(t *testing.T) { runScripts(t, "testdata/cases") }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	require.Programs(t)
	config, err := filepath.Abs("../examples/backend-minimal/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fakes := ""
	if _, err := exec.LookPath("cc"); err == nil {
		fakes = fakeLibraries(t)
		fakeKernels(t)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			run, err := os.MkdirTemp("/tmp", "wt") // a short path, for sockets
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(run) })
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("BIN", bin)
			env.Setenv("CONFIG", config)
			env.Setenv("EXAMPLES", filepath.Dir(filepath.Dir(config)))
			env.Setenv("FAKEGPU", fakes)
			env.Setenv("PATH", strings.Join([]string{bin, filepath.Join(bin, "programs"), env.Getenv("PATH")}, ":"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "fakegpu":
				return fakes != "", nil
			case "twonodes":
				return mayPretendNodes(), nil
			case "nodes": // several NUMA nodes
				_, err := os.Stat("/sys/devices/system/node/node1")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "clean": clean, "twonodes": twoNodes},
	})
}

// exits CODE PROGRAM ARGUMENT… runs a program that must end with the code. Its output is there for stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT…")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != code {
		ts.Fatalf("exit code %d, want %d\n%s", got, code, ts.ReadFile("stderr"))
	}
}

// clean fails unless soon no process and no file of the script's runs is left.
func clean(ts *testscript.TestScript, _ bool, _ []string) {
	if left := leftovers(ts.Getenv("XDG_RUNTIME_DIR")); len(left) > 0 {
		ts.Fatalf("left behind: %s", strings.Join(left, ", "))
	}
}

// leftovers are the files in a run's folder and the processes that know of it, once they have had time to go.
func leftovers(folder string) []string {
	var left []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left = nil
		files, _ := filepath.Glob(filepath.Join(folder, "*"))
		left = append(left, files...)
		for pid, line := range processesOf(folder) {
			left = append(left, fmt.Sprintf("process %d (%s)", pid, line))
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// processesOf are the command lines of the processes that know of a run's folder, by process id.
func processesOf(folder string) map[int]string {
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
