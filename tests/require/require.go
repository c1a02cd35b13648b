// Package require lets tests skip for want of a tool, and fail instead where the tool is said to be there.
package require

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Variable names the environment variable that lists, separated by commas, what this machine has: a test that needs
// one of those and does not find it fails rather than skips.
const Variable = "WEIR_REQUIRE"

// Tool is the path of an executable that the test needs.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, err.Error())
	}
	return path
}

// Missing ends a test that needs what this machine lacks: skipped with the reason, or failed if Variable lists it.
func Missing(t testing.TB, name, reason string) {
	t.Helper()
	required := strings.FieldsFunc(os.Getenv(Variable), func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(required, name) {
		t.Fatalf("%s is needed (%s says that it is here): %s", name, Variable, reason)
	}
	t.Skipf("%s is needed: %s", name, reason)
}

// Programs is for tests that only start programs, which are built without the race detector: with it on they would find nothing
// more, so they are skipped.
func Programs(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("the programs that it starts are not built with the race detector")
	}
}

// LongVariable names the environment variable with which the tests that take long run too.
const LongVariable = "WEIR_TEST_LONG"

// Long is for tests that take long and look for what a change seldom breaks: models of which all states are searched, what a language or
// a page of the documentation needs. They are skipped unless they are asked for.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv(LongVariable) == "" {
		t.Skip("takes long: ./task test:long runs it")
	}
}

// Python is the path of a Python 3 that has the modules: the one in PATH, or else the distribution's.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	var reasons []string
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil {
			var out []byte
			if out, err = exec.Command(path, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput(); err == nil {
				return path
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			err = fmt.Errorf("%s: %s", path, lines[len(lines)-1])
		}
		reasons = append(reasons, err.Error())
	}
	Missing(t, "python3", strings.Join(reasons, "; "))
	return ""
}
