package languages

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// python is an interpreter that has some modules, and the environment in which it finds Weir.
func python(t *testing.T, modules ...string) (program string, env []string) {
	t.Helper()
	lib := harness.CLibrary(t)
	why := "there is no python3"
	for _, name := range []string{"python3", "/usr/bin/python3"} { // Debian's packages are for its own
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "-c", "import "+strings.Join(modules, ", ")).CombinedOutput()
		if err == nil {
			folder, err := filepath.Abs("../../sdk/python")
			if err != nil {
				t.Fatal(err)
			}
			return path, []string{
				"PYTHONPATH=" + folder, "PYTHONDONTWRITEBYTECODE=1", "LIBWEIR=" + filepath.Join(lib, "libweir.so"),
				"PATH=" + harness.Bin + ":" + os.Getenv("PATH"), "OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo",
			}
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		why = path + ": " + lines[len(lines)-1]
	}
	require.Missing(t, "python3-"+modules[len(modules)-1], why)
	return "", nil
}

// bothRight checks that both ranks came to the end.
func bothRight(t *testing.T, out string) {
	t.Helper()
	if n := strings.Count(out, "right\n"); n != 2 {
		t.Errorf("%d ranks end right, want 2:\n%s", n, out)
	}
}

func TestPythonArrays(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy")
	args := []string{"-n", "2", "--", program, "testdata/python/arrays.py"}
	if exec.Command(program, "-c", "import torch").Run() == nil {
		args = append(args, "torch")
	}
	bothRight(t, harness.WeirRun(t, env, args...))
}

func TestTorchBackend(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy", "torch")
	bothRight(t, harness.WeirRun(t, env, "-n", "2", "--", program, "testdata/python/backend.py", "again"))
}

// TestTorchOtherWays runs what else all-reduces in PyTorch. Of what only PyTorch 2 has the script says that it is skipped.
func TestTorchOtherWays(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy", "torch")
	out := harness.WeirRun(t, env, "-n", "2", "--", program, "testdata/python/compile.py")
	bothRight(t, out)
	for _, part := range []string{"data_parallel", "hooks", "uneven", "exchanges", "names", "objects", "values", "groups"} {
		if !strings.Contains(out, part+" of rank 0: ok\n") {
			t.Errorf("%s was not ok:\n%s", part, out)
		}
	}
}

// TestTorchGloo holds that gloo is not given CUDA tensors for what it does in host memory only, which ends the process.
func TestTorchGloo(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy", "torch")
	c := exec.Command(program, "testdata/python/gloo.py")
	c.Env = append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "right\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTorchDevice joins with the GPU that the options name, also where torch meets before it knows them.
func TestTorchDevice(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy", "torch")
	env = append(env, "LD_LIBRARY_PATH="+harness.FakeLibraries(t), "FAKE_CUDA_DEVICES=2")
	out := harness.WeirRun(t, env, "-n", "2", "--", program, "-c", `
import os, torch, torch.distributed as dist, weir.torch
rank = int(os.environ["WEIR_RANK"])
try:
    dist.init_process_group("weir", pg_options=weir.torch.Options(device="7" if rank else "0"))
except weir.Error as error:
    assert rank == 0 or "device 7 is out of range" in str(error), error
else:
    assert False, "joined"
`)
	if strings.Contains(out, "Error") {
		t.Error(out)
	}
	bothRight(t, harness.WeirRun(t, env, "-n", "2", "--", program, "-c", `
import os, sys, torch, torch.distributed as dist, weir.torch
dist.init_process_group("weir", pg_options=weir.torch.Options(device=str(1 - int(os.environ["WEIR_RANK"]))))
dist.group.WORLD.weir.warm("float32", memory="cuda")
dist.all_reduce(torch.ones(3))
sys.stdout.write("right\n")`))
}

// torchrun runs a script as two ranks by PyTorch's launcher, for which rank 0 starts an agent, and checks that the agent ends.
func torchrun(t *testing.T, wantError bool, script ...string) string {
	t.Helper()
	program, env := python(t, "numpy", "torch")
	folder := harness.RunFolder(t)
	ctx, cancel := context.WithTimeout(t.Context(), await.For(4*time.Minute))
	defer cancel()
	// The redirections of a rank that does not exist: without them PyTorch 1.13 fails on Python 3.11.
	args := append([]string{"-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1", "--nproc_per_node", "2", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"}, script...)
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), append([]string{"XDG_RUNTIME_DIR=" + folder, "XDG_STATE_HOME=" + t.TempDir(), "WEIR_GROUP__DEADLINE=1m"}, env...)...)
	c.WaitDelay = await.For(5 * time.Second)
	out, err := c.CombinedOutput()
	if (err != nil) != wantError {
		t.Fatalf("torchrun %s: %v\n%s", strings.Join(script, " "), err, out)
	}
	await.Until(t, "the agent has ended, and its folder with it", func() bool {
		left, _ := filepath.Glob(filepath.Join(folder, "weir-*"))
		return len(left) == 0
	})
	return string(out)
}

func TestTorchrun(t *testing.T) {
	require.Long(t)
	bothRight(t, torchrun(t, false, "testdata/python/backend.py"))
}

// TestTorchrunRankDies has the agent end too when ranks do not leave as they should.
func TestTorchrunRankDies(t *testing.T) {
	require.Long(t)
	script := filepath.Join(t.TempDir(), "dies.py")
	source := `
import os, torch, torch.distributed as dist, weir.torch
dist.init_process_group("weir")
dist.all_reduce(torch.ones(3))
os.kill(os.getpid(), 9) if dist.get_rank() == 0 else dist.all_reduce(torch.ones(3))
`
	if err := os.WriteFile(script, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := torchrun(t, true, script); !strings.Contains(out, "rank 0 (process") {
		t.Errorf("rank 1 does not say that rank 0 has ended:\n%s", out)
	}
}

// TestTorchTrains trains the example with Weir's and with gloo's all_reduce to the same parameters: the sum of two ranks is
// the same in either order.
func TestTorchTrains(t *testing.T) {
	require.Long(t)
	program, env := python(t, "numpy", "torch")
	digits := "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz" // in Debian's package python3-sklearn-lib or python3-sklearn
	if _, err := os.Stat(digits); err != nil {
		require.Missing(t, "python3-sklearn", err.Error())
	}
	dir := t.TempDir()
	for _, backend := range []string{"weir", "gloo"} {
		out := harness.WeirRun(t, append(env, "DIGITS="+digits), "-n", "2", "--", program, "../../examples/pytorch/train.py",
			"--backend", backend, "--epochs", "4", "--save", filepath.Join(dir, backend))
		if by := map[string]string{"weir": "by shm-flat", "gloo": "by gloo"}[backend]; strings.Count(out, by) != 2 {
			t.Errorf("two ranks do not say %q:\n%s", by, out)
		}
	}
	same := exec.Command(program, "-c", `
import sys, torch
a, b = (torch.load(path) for path in sys.argv[1:])
assert a.keys() == b.keys() and len(a) == 4
torch.manual_seed(7)
untrained = torch.nn.Linear(64, 100).weight
for name in a:
    assert torch.equal(a[name], b[name]), (name, (a[name] - b[name]).abs().max())
assert not torch.equal(a["0.weight"], untrained)
`, filepath.Join(dir, "weir"), filepath.Join(dir, "gloo"))
	if out, err := same.CombinedOutput(); err != nil {
		t.Errorf("the parameters differ: %s\n%s", err, out)
	}
}

// TestPythonWheel builds the package as a wheel and uses what it installs.
func TestPythonWheel(t *testing.T) {
	require.Long(t)
	program, env := python(t, "setuptools", "wheel", "pip", "numpy")
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "source"), os.DirFS("../../sdk/python")); err != nil { // pip writes beside the source
		t.Fatal(err)
	}
	pip := func(args ...string) {
		c := exec.Command(program, append([]string{"-m", "pip", "-q", "--disable-pip-version-check"}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("pip %s: %s\n%s", strings.Join(args, " "), err, out)
		}
	}
	pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", dir, "./source")
	wheels, _ := filepath.Glob(filepath.Join(dir, "weir-*-py3-none-any.whl")) // none: it is for one machine only
	if len(wheels) != 1 {
		t.Fatalf("wheels: %v, want one for any machine", wheels)
	}
	z, err := zip.OpenReader(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, ".so") {
			t.Errorf("%s in the wheel", f.Name)
		}
	}
	pip("install", "--no-index", "--no-deps", "--target", filepath.Join(dir, "site"), wheels[0])
	env = append(env, "PYTHONPATH="+filepath.Join(dir, "site"))
	out := harness.WeirRun(t, env, "-n", "2", "--", program, "-c", `
import numpy, weir
with weir.join() as session:
    assert "site" in weir.__file__, weir.__file__
    assert (session.world.all_reduce(numpy.ones(9)) == 2).all()
print("right")`)
	bothRight(t, out)
}

// TestPythonFindsTheLibrary has the package say where it looked, and find the library beside the program.
func TestPythonFindsTheLibrary(t *testing.T) {
	require.Long(t)
	program, env := python(t, "ctypes")
	run := func(env ...string) string {
		c := exec.Command(program, "-c", "import weir\ntry: print('version', weir.version())\nexcept weir.Error as e: print('error', e)")
		c.Env = env
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%s", err, out)
		}
		return string(out)
	}
	if out := run("PYTHONPATH="+strings.TrimPrefix(env[0], "PYTHONPATH="), "LIBWEIR=/nowhere/libweir.so"); !strings.Contains(out, "LIBWEIR") || !strings.Contains(out, "/nowhere/libweir.so") {
		t.Errorf("a wrong LIBWEIR: %s", out)
	}
	if out := run(env[0], "PATH=/usr/bin:/bin"); !strings.Contains(out, "error libweir.so cannot be loaded") {
		t.Errorf("no library anywhere: %s", out)
	}
	beside := t.TempDir()
	err := errors.Join( // the program is looked for, not run
		os.WriteFile(filepath.Join(beside, "weir"), []byte("#!/bin/sh\n"), 0o755),
		os.Symlink(harness.CLibrary(t), filepath.Join(beside, "lib")),
	)
	if err != nil {
		t.Fatal(err)
	}
	if out := run(env[0], "PATH="+beside+":/usr/bin:/bin"); !strings.Contains(out, "version 0.") {
		t.Errorf("a library in lib/ beside weir: %s", out)
	}
}
