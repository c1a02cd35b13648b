package cli

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

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
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
	config, err := filepath.Abs("../../examples/backend-minimal/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fakes := ""
	if _, err := exec.LookPath("cc"); err == nil {
		fakes = harness.FakeLibraries(t)
		harness.FakeKernels(t)
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
			env.Setenv("BIN", harness.Bin)
			env.Setenv("CONFIG", config)
			env.Setenv("EXAMPLES", filepath.Dir(filepath.Dir(config)))
			env.Setenv("FAKEGPU", fakes)
			for _, d := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second} {
				env.Setenv("FOR_"+d.String(), await.For(d).Round(time.Millisecond).String()) // deadlines that who is well keeps to
			}
			env.Setenv("PATH", strings.Join([]string{harness.Bin, filepath.Join(harness.Bin, "programs"), env.Getenv("PATH")}, ":"))
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
	if left := harness.Leftovers(ts.Getenv("XDG_RUNTIME_DIR")); len(left) > 0 {
		ts.Fatalf("left behind: %s", strings.Join(left, ", "))
	}
}
