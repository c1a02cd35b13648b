package dropin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

var dropInOnce struct {
	sync.Once
	out []byte
	err error
}

// dropIn is the path of the library with which programs that use NCCL use Weir. libweir.so lies beside it.
func dropIn(t testing.TB) string {
	t.Helper()
	path := filepath.Join(harness.CLibrary(t), "libweir-nccl.so.2")
	dropInOnce.Do(func() {
		dropInOnce.out, dropInOnce.err = exec.Command("../../sdk/nccl-dropin/build", path).CombinedOutput()
	})
	if dropInOnce.err != nil {
		t.Fatalf("build the drop-in: %s\n%s", dropInOnce.err, dropInOnce.out)
	}
	return path
}

// linked compiles a C program that is linked to NCCL and the CUDA driver, which are the fakes where it runs.
func linked(t testing.TB, name string, flags ...string) string {
	t.Helper()
	fakes, program := harness.FakeLibraries(t), filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".c"))
	args := append([]string{"-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-o", program, "testdata/" + name}, flags...)
	if out, err := exec.Command("cc", append(args, filepath.Join(fakes, "libnccl.so.2"), filepath.Join(fakes, "libcuda.so.1"))...).CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %s\n%s", name, err, out)
	}
	return program
}

// ncclJob is how the program testdata/ranks.c is run.
type ncclJob struct {
	ranks   int
	agents  int // ranks of the agent; 0: as many
	env     []string
	program []string
}

func (j ncclJob) environ(t testing.TB, preload string) []string {
	t.Helper()
	env := []string{
		"LD_LIBRARY_PATH=" + harness.FakeLibraries(t), "FAKE_CUDA_DEVICES=" + strconv.Itoa(j.ranks), "NRANKS=" + strconv.Itoa(j.ranks), "ID=" + filepath.Join(t.TempDir(), "id"),
		"XDG_CACHE_HOME=" + t.TempDir(), "XDG_STATE_HOME=" + t.TempDir(), "WEIR_PLUGINS__PUSH__DISABLED=true",
	}
	if preload != "" {
		env = append(env, "LD_PRELOAD="+preload)
	}
	return append(env, j.env...)
}

// underRun runs the program as ranks of weir run, of which only the ranks have the library preloaded.
func (j ncclJob) underRun(t testing.TB, preload string) (stdout, stderr string) {
	t.Helper()
	run := j
	run.program = slices.Concat([]string{filepath.Join(harness.Bin, "weir"), "run", "-q", "-n", strconv.Itoa(j.ranks), "--", "env", "LD_PRELOAD=" + preload}, j.program)
	return outputs(t, run.command(t, harness.RunFolder(t), j.environ(t, "")))
}

// command is the program as a process, which is ended when it takes too long.
func (j ncclJob) command(t testing.TB, folder string, env []string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.For(2*time.Minute))
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, j.program[0], j.program[1:]...)
	c.Env, c.WaitDelay = slices.Concat(harness.Weir(t, folder, nil).Env, env), await.For(5*time.Second)
	return c
}

// underAgent runs each rank by itself, beside an agent, with what env says of it. It returns what each printed.
func (j ncclJob) underAgent(t *testing.T, env func(rank int) []string) []string {
	t.Helper()
	folder := harness.RunFolder(t)
	agent := harness.Weir(t, folder, j.environ(t, ""), "agent", "-q", "--ranks", strconv.Itoa(cmp.Or(j.agents, j.ranks)))
	variables := startAgentCommand(t, agent)
	common := j.environ(t, dropIn(t))
	out := make([]string, j.ranks)
	var wg sync.WaitGroup
	for r := range j.ranks {
		wg.Go(func() {
			c := j.command(t, folder, slices.Concat(common, variables, env(r)))
			b, err := c.CombinedOutput()
			out[r] = fmt.Sprintf("%s[%v]", b, err)
		})
	}
	wg.Wait()
	return out
}

// startAgentCommand starts an agent and is what it prints: variables for ranks.
func startAgentCommand(t *testing.T, agent *exec.Cmd) (variables []string) {
	t.Helper()
	stdout, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Signal(syscall.SIGTERM); _ = agent.Wait() })
	for lines := bufio.NewScanner(stdout); len(variables) < 2 && lines.Scan(); {
		variables = append(variables, lines.Text())
	}
	return variables
}

func outputs(t testing.TB, c *exec.Cmd) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %s\n%s\n%s", strings.Join(c.Args, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// callsOf are the calls of each class that a program's output shows: the sums of those of all groups.
func callsOf(t *testing.T, out string) map[string]uint64 {
	t.Helper()
	var runs []struct {
		Groups []struct {
			Classes []struct {
				Class    string
				Backends []struct{ Calls uint64 }
			}
		}
	}
	if _, status, found := strings.Cut(out, "[\n"); !found {
		t.Fatalf("no status:\n%s", out)
	} else if err := json.NewDecoder(strings.NewReader("[" + status)).Decode(&runs); err != nil {
		t.Fatalf("status: %s\n%s", err, out)
	}
	calls := map[string]uint64{}
	for _, r := range runs {
		for _, g := range r.Groups {
			for _, c := range g.Classes {
				for _, b := range c.Backends {
					calls[c.Class] += b.Calls
				}
			}
		}
	}
	return calls
}

// TestDropIn runs a program that knows nothing of Weir as it is, and counts which of its calls Weir has served: sums of float32,
// eager, captured and in a group call, but none of float64 or of no elements.
func TestDropIn(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "usual"}}
	out, errs := j.underRun(t, dropIn(t))
	calls := callsOf(t, out)
	if calls["cuda float32 sum eager"] != 4 || calls["cuda float32 sum captured"] != 1 || calls["cuda float64 sum eager"] != 0 {
		t.Errorf("calls %v, want 4 eager and 1 captured of float32", calls)
	}
	for _, class := range []string{"float16 sum eager", "float16 sum captured", "bfloat16 sum eager", "bfloat16 sum captured"} {
		if _, decided := calls["cuda "+class]; !decided {
			t.Errorf("%s is not decided: %v", class, calls)
		}
	}
	says := regexp.MustCompile(`(?m)^weir-nccl\[\d+\]: Weir \S+ serves sums of float32 float16 bfloat16 in this communicator of 2 ranks, NCCL 22809 of ` + regexp.QuoteMeta(harness.FakeNCCL(t)) + ` the rest.$`)
	if n := len(says.FindAllString(errs, -1)); n != 2 {
		t.Errorf("it says %d times that Weir serves, want once for each of two communicators:\n%s", n, errs)
	}
	if strings.Contains(errs, "group failed") {
		t.Errorf("a group has failed:\n%s", errs)
	}
}

// TestDropInTwoNCCLs has two versions of NCCL on a machine, either of them the loader's. What the drop-in has opened serves Weir's
// calls too, whatever else is loaded, found by the loader or named in the settings, and is known before the ranks join.
func TestDropInTwoNCCLs(t *testing.T) {
	ranks := linked(t, "ranks.c")
	older, newer := fakegpu.NCCL(t, "-DVERSION=22803"), fakegpu.NCCL(t, "-DVERSION=22809")
	renamed := filepath.Join(t.TempDir(), "an-nccl.so")
	if out, err := exec.Command("cp", newer, renamed).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	for name, c := range map[string]struct {
		loader, opened, version string
		env                     []string
		preload                 string // beside the drop-in
	}{
		"settings name the other":                    {newer, newer, "22809", []string{"WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + older}, ""},
		"settings name the other, newer":             {older, older, "22803", []string{"WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + newer}, ""},
		"both are loaded":                            {older, newer, "22809", nil, ":" + newer},
		"both are loaded, the newer is the loader's": {newer, older, "22803", nil, ":" + older},
		"another name":                               {older, renamed, "22809", []string{"WEIR_NCCL_LIB=" + renamed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Dir(c.loader) + ":" + harness.FakeLibraries(t)
			j := ncclJob{ranks: 2, program: []string{ranks, "usual"}, env: append([]string{"LD_LIBRARY_PATH=" + path}, c.env...)}
			out, errs := j.underRun(t, dropIn(t)+c.preload)
			if calls := callsOf(t, out); calls["cuda float32 sum eager"] != 4 {
				t.Errorf("calls %v, want 4\n%s", calls, errs)
			}
			if want := "serves sums of float32 float16 bfloat16 in this communicator of 2 ranks, NCCL " + c.version + " of " + c.opened + " the rest."; strings.Count(errs, want) != 2 {
				t.Errorf("it does not say twice %q:\n%s", want, errs)
			}
		})
	}
}

// TestDropInSplit serves parts of communicators, in an order of ranks of their own, and ends without destroying anything.
func TestDropInSplit(t *testing.T) {
	j := ncclJob{ranks: 4, program: []string{linked(t, "ranks.c"), "split"}}
	out, errs := j.underRun(t, dropIn(t))
	if calls := callsOf(t, out); calls["cuda float32 sum eager"] != 4 {
		t.Errorf("calls %v, want 2 of each half", calls)
	}
	if strings.Contains(errs, "group failed") || strings.Count(errs, "serves sums of") != 4 {
		t.Errorf("want four communicators that are served and none that fails:\n%s", errs)
	}
}

// TestDropInRanksOfTheirOwn gives the ranks to an agent as a program does that starts its ranks itself: they have no WEIR_RANK,
// and are numbered as their GPUs are.
func TestDropInRanksOfTheirOwn(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "usual"}}
	out := j.underAgent(t, func(rank int) []string { return []string{"NRANK=" + strconv.Itoa(rank)} })
	if calls := callsOf(t, out[0]); calls["cuda float32 sum eager"] != 4 {
		t.Errorf("calls %v, want 4\n%s", calls, out)
	}
}

// TestDropInForwards makes communicators that are NCCL's alone, for a reason that is the same on all ranks.
func TestDropInForwards(t *testing.T) {
	ranks := linked(t, "ranks.c")
	for name, c := range map[string]struct {
		env  func(rank int) []string
		want string
	}{
		"no agent":        {func(int) []string { return []string{"WEIR_AGENT_SOCKET="} }, "because rank 0: WEIR_AGENT_SOCKET is not set: no agent"},
		"one without":     {func(r int) []string { return map[int][]string{1: {"WEIR_AGENT_SOCKET=/nowhere"}}[r] }, "because rank 1: there is no agent at /nowhere"},
		"one rank twice":  {func(int) []string { return []string{"WEIR_RANK=0"} }, "because ranks 0 and 1 are both rank 0 of the agent (WEIR_RANK); for a program that starts its ranks itself use weir agent"},
		"no world size":   {func(int) []string { return []string{"WEIR_WORLD_SIZE="} }, "because rank 0: WEIR_WORLD_SIZE is not set"},
		"no number":       {func(int) []string { return []string{"WEIR_RANK=1st"} }, "because rank 0: WEIR_RANK=1st is not a number from 0"},
		"no size":         {func(int) []string { return []string{"WEIR_WORLD_SIZE=two"} }, "because rank 0: WEIR_WORLD_SIZE=two is not a number of ranks"},
		"no such rank":    {func(r int) []string { return []string{"WEIR_RANK=" + strconv.Itoa(2*r)} }, "because rank 1: rank 2 of 2 does not exist"},
		"without libweir": {func(int) []string { return []string{"WEIR_LIB=/nowhere/libweir.so"} }, "because rank 0: /nowhere/libweir.so: cannot open shared object file"},
		"no class":        {func(int) []string { return nil }, "because no backend serves sums of float32, float16 or bfloat16"},
	} {
		t.Run(name, func(t *testing.T) {
			j := ncclJob{ranks: 2, program: []string{ranks, "plain"}}
			if name == "no class" {
				j.env = []string{"WEIR_PLUGINS__NCCL__DISABLED=true"}
			}
			out := j.underAgent(t, func(r int) []string { return append([]string{"NRANK=" + strconv.Itoa(r)}, c.env(r)...) })
			all := strings.Join(out, "\n")
			if strings.Count(all, c.want) != 2 || strings.Count(all, "weir-nccl[") != 2 || strings.Count(all, " (2 communicators so far)") != 1 || strings.Count(all, "right\n[<nil>]") != 2 {
				t.Errorf("want right sums and, of each of two communicators, %q:\n%s", c.want, all)
			}
		})
	}
}

// TestDropInLosesARank has NCCL's functions tell of it.
func TestDropInLosesARank(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "lost"}}
	out := j.underAgent(t, func(rank int) []string { return []string{"NRANK=" + strconv.Itoa(rank)} })
	for _, want := range []string{
		"asynchronous error 6 remote process exited or there was a network error\n", "last error: Weir: weir_group_error: group g2 has failed: rank 1 (process",
		"call 6 last error: Weir: weir_all_reduce_device: group g2 has failed: rank 1 (process", "[<nil>]",
	} {
		if !strings.Contains(out[0], want) {
			t.Errorf("rank 0 lacks %q:\n%s", want, out[0])
		}
	}
}

// TestDropInAbort aborts a call that waits on the device; its peer is told.
func TestDropInAbort(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "aborted"}}
	out, _ := j.underRun(t, dropIn(t))
	for _, want := range []string{"rank 0 came back\n", "rank 1: error 6: Weir: weir_group_error: group g2 has failed: rank 0 aborted it: ncclCommAbort\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// TestDropInForks has a process fork the ranks, as vLLM does, and ranks fork before and after they have communicators.
func TestDropInForks(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "forks"}}
	folder := harness.RunFolder(t)
	variables := startAgentCommand(t, harness.Weir(t, folder, j.environ(t, ""), "agent", "-q", "--ranks", "2"))
	out, errs := outputs(t, j.command(t, folder, slices.Concat(j.environ(t, dropIn(t)), variables)))
	if !strings.Contains(out, "parent threads 1 1 bad 0\n") || callsOf(t, out)["cuda float32 sum eager"] != 1 {
		t.Errorf("a forked rank is not served:\n%s%s", out, errs)
	}
}

// TestDropInPython is the same from Python, which binds NCCL as vLLM and SGLang do, with shells and a compiler between.
func TestDropInPython(t *testing.T) {
	python := require.Tool(t, "python3")
	script, err := filepath.Abs("testdata/forks.py")
	if err != nil {
		t.Fatal(err)
	}
	j := ncclJob{ranks: 2, program: []string{python, script}}
	folder := harness.RunFolder(t)
	variables := startAgentCommand(t, harness.Weir(t, folder, j.environ(t, ""), "agent", "-q", "--ranks", "2"))
	for _, how := range [][]string{{"LD_PRELOAD=" + dropIn(t)}, {"NCCL_SO_PATH=" + dropIn(t)}} {
		out, errs := outputs(t, j.command(t, folder, slices.Concat(j.environ(t, ""), variables, how)))
		if callsOf(t, out)["cuda float32 sum eager"] != 2 || strings.Count(out, "right\n") != 2 {
			t.Errorf("%s: the workers are not served:\n%s%s", how, out, errs)
		}
	}
}

// TestDropInMixed has a rank without the drop-in, which does nothing: the other one is told, instead of waiting for ever.
func TestDropInMixed(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "ranks.c"), "silent"}}
	out := j.underAgent(t, func(rank int) []string {
		return [][]string{{"NRANK=0", "WEIR_NCCL_TIMEOUT=1"}, {"NRANK=1", "LD_PRELOAD="}}[rank]
	})
	if !strings.Contains(out[0], "is 2 (Weir: a rank did not answer in time: every rank of a communicator must have this library, or none, and what one makes in one group call all make in one (rank 0 of 2, first all-gather))") {
		t.Errorf("rank 0:\n%s\nrank 1:\n%s", out[0], out[1])
	}
}
