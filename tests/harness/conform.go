package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// Conformed is what `weir plugins test --format json` prints.
type Conformed struct {
	Plugin, Version     string
	OK, Failed, Skipped int
	Results             []struct {
		Rule, Outcome, Expected, Seen, Reason, See string
		Backend                                    *string
	}
}

// Conform runs `weir plugins test` and returns what it found and its exit code.
func Conform(t *testing.T, env []string, args ...string) (Conformed, int) {
	t.Helper()
	require.Programs(t)
	cmd := exec.Command(filepath.Join(Bin, "weir"), append([]string{"plugins", "test", "--format", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, append(os.Environ(), env...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var c Conformed
	if err := json.Unmarshal(stdout.Bytes(), &c); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
	}
	return c, cmd.ProcessState.ExitCode()
}
