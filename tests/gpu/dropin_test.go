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

	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/ondevice"
	"github.com/weir-project/weir/tests/require"
)

//go:embed testdata/dropin/ranks.py
var ranksProgram string

// TestDropIn runs a program in PyTorch, which knows nothing of Weir, as it is, then with the drop-in for NCCL: without an agent, and as
// ranks of weir run. The bits that come out must be the same, and Weir must have served what it is to serve.
func TestDropIn(t *testing.T) {
	devices(t)
	python := require.Tool(t, "python3")
	if out, err := exec.Command(python, "-c", "import torch; assert torch.cuda.is_available()").CombinedOutput(); err != nil {
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

// dropInEnv is the environment of programs that use NCCL, two ranks of which share a GPU if there is only one.
func dropInEnv(t *testing.T) []string {
	t.Helper()
	library := findNCCL(t).Path
	env := []string{
		"PATH=" + filepath.Dir(program(t, "weir")) + ":" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + filepath.Dir(library) + ":" + os.Getenv("LD_LIBRARY_PATH"),
		"WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + library, "REAL=" + library,
	}
	if devices(t) < 2 {
		env = append(env, "SHARE=1", "WEIR_GROUP__SHARE_DEVICES=true", "NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo")
	}
	return env
}

// TestDropInCost prints what calls of a C program take by way of the drop-in, those that Weir serves and those that are passed on, and what
// the same call takes from Go, in turns; it asserts no time.
func TestDropInCost(t *testing.T) {
	devices(t)
	ranks, weir, library := program(t, filepath.Join("gpu", "ranks")), program(t, "weir"), program(t, filepath.Join("lib", "libweir-nccl.so.2"))
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		folder := t.TempDir()
		fromC, _, _ := runRanks(t, weir, "run", "-q", "-n", "2", "--", "env", "LD_PRELOAD="+library, "ID="+filepath.Join(folder, "id"), ranks, "cost")
		fromGo, _, _ := runRanks(t, weir, "run", "-q", "-n", "2", "--", "env", envScenario+"=api", own)
		if strings.Count(fromC, ": ") != 4 || !strings.Contains(fromGo, "from Go: ") {
			t.Fatalf("from C\n%s\nfrom Go\n%s", fromC, fromGo)
		}
		t.Log("\n" + fromC + fromGo)
	}
}

// TestDropInGroupCost prints what group calls of so many sums take, Weir's and NCCL's, in turns; it asserts no time.
func TestDropInGroupCost(t *testing.T) {
	devices(t)
	ranks, weir, library := program(t, filepath.Join("gpu", "ranks")), program(t, "weir"), program(t, filepath.Join("lib", "libweir-nccl.so.2"))
	out, _, _ := runRanks(t, weir, "run", "-q", "-n", "2", "--", "env", "LD_PRELOAD="+library, "WEIR_NCCL_GROUP_SUMS=64", "ID="+filepath.Join(t.TempDir(), "id"), ranks, "groups")
	if strings.Count(out, " sums: Weir ") != 21 {
		t.Fatalf("it prints\n%s", out)
	}
	t.Log("\n" + out)
}

// api prints what a call of one element takes from Go, as the program ranks does from C.
func api(s *rank.Session, p *ondevice.Program) error {
	const warm = 5
	rounds, calls := 101, 20
	if os.Getenv("SHARE") != "" {
		rounds, calls = 21, 4
	}
	g := s.World()
	if err := g.Warm(context.Background(), sum); err != nil {
		return err
	}
	var took []float64
	for i := range warm + rounds {
		start := time.Now()
		for range calls {
			if err := p.Sum(g, p.Dst, p.Dst, 1); err != nil {
				return err
			}
		}
		if i >= warm {
			took = append(took, float64(time.Since(start).Nanoseconds())/float64(calls))
		}
		if err := p.SynchronizeStream(p.Stream); err != nil {
			return err
		}
	}
	if g.Rank() == 0 {
		fmt.Printf("from Go: %.0f (%s)\n", median(took), g.Backend(sum, 4))
	}
	return nil
}

// runRanks is what a program printed: results, other lines, and its standard error.
func runRanks(t *testing.T, name string, args ...string) (results, other, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.For(3*time.Minute))
	defer cancel()
	var errs strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Env, c.Stderr, c.WaitDelay = append(environ(), dropInEnv(t)...), &errs, await.For(5*time.Second)
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
