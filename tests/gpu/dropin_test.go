package gpu

import (
	"context"
	_ "embed" // for the program
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/require"
)

//go:embed testdata/dropin/ranks.py
var ranksProgram string

// TestDropIn runs a program in PyTorch, which knows nothing of Weir, as it is, then with the drop-in for NCCL: without an agent, and as
// ranks of weir run. The bits that come out must be the same, and Weir must have served what it is to serve.
func TestDropIn(t *testing.T) {
	if n := devices(t); n < 2 {
		require.Missing(t, "gpus", fmt.Sprintf("%d GPU, and NCCL needs one for each of two ranks", n))
	}
	python := require.Tool(t, "python3")
	if out, err := exec.Command(python, "-c", "import torch; assert torch.cuda.device_count() > 1").CombinedOutput(); err != nil {
		require.Missing(t, "pytorch", string(out))
	}
	weir, library := program(t, "weir"), program(t, filepath.Join("lib", "libweir-nccl.so.2"))
	script := filepath.Join(t.TempDir(), "ranks.py")
	if err := os.WriteFile(script, []byte(ranksProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, _, _ := runRanks(t, python, script, "fork")
	none, _, said := runRanks(t, "env", "LD_PRELOAD="+library, python, script, "fork")
	served, other, heard := runRanks(t, weir, "run", "-q", "-n", "2", "--", "env", "LD_PRELOAD="+library, python, script)
	if strings.Count(plain, "\n") < 20 || none != plain || served != plain {
		t.Errorf("plain\n%s\nwithout an agent\n%s\nserved\n%s", plain, none, served)
	}
	if !strings.Contains(said, "is not set: no agent") || !strings.Contains(heard, "serves sums of float32 float16 bfloat16") {
		t.Errorf("without an agent it says\n%s\nwith one\n%s", said, heard)
	}
	for _, class := range []string{"float32 sum eager", "float16 sum eager", "bfloat16 sum eager", "bfloat16 sum captured"} {
		if !strings.Contains(other, "cuda "+class) {
			t.Errorf("%s is not in the status:\n%s", class, other)
		}
	}
	t.Log(other)
}

// runRanks is what a program printed: results, other lines, and its standard error.
func runRanks(t *testing.T, name string, args ...string) (results, other, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var errs strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Env, c.Stderr, c.WaitDelay = append(os.Environ(), "PATH="+filepath.Dir(program(t, "weir"))+":"+os.Getenv("PATH")), &errs, 5*time.Second
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %v: %s\n%s%s", name, args, err, out, errs.String())
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "cost ") || strings.HasPrefix(line, "status ") {
			other += line
		} else {
			results += line
		}
	}
	return results, other, errs.String()
}
