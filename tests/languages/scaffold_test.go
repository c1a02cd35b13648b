package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// scaffolds are what `weir plugins new` can begin, and how each is built, tested and run.
var scaffolds = []struct {
	kind, lang string
	test       []string // arguments of `weir plugins test` beside the plugin's path
	device     bool     // its ranks need a GPU, here the fake one
}{
	{"schedule", "go", nil, false},
	{"kernel", "go", nil, true},
	{"library", "go", nil, true},
	{"worker", "go", nil, false},
	{"worker", "python", []string{"--tls", "off"}, false},
	{"worker", "c", nil, false},
}

// TestScaffolds begins a backend of each kind and language, follows its README, and has its weir.yaml serve all-reduces.
func TestScaffolds(t *testing.T) {
	require.Long(t)
	for _, s := range scaffolds {
		t.Run(s.kind+" in "+s.lang, func(t *testing.T) {
			env := scaffoldEnv(t, s.lang, s.device)
			name := "my-" + s.kind
			dir := filepath.Join(t.TempDir(), "new")
			args := []string{"plugins", "new", dir, "--name", name, "--kind", s.kind, "--lang", s.lang}
			if s.lang == "go" {
				args = append(args, "--sdk", "../..")
			}
			mustRun(t, "", env, "weir", args...)
			plugin := buildScaffold(t, dir, name, s.lang, env)
			conforms(t, append([]string{plugin}, s.test...), env)
			if s.kind == "kernel" {
				replaceKernel(t, dir)
				buildScaffold(t, dir, name, s.lang, env)
			}
			run := []string{"run", "-c", filepath.Join(dir, "weir.yaml"), "-n", "2", "--", "checked", "-calls", "30", "-op", "sum"}
			if s.device {
				run = []string{"bench", "--config", filepath.Join(dir, "weir.yaml"), "--ranks", "2", "--memory", "cuda", "-b", "8", "-e", "4K", "-f", "8", "-n", "5"}
			}
			out := mustRun(t, "", env, "weir", run...)
			served := "# Out of bounds values : 0 OK"
			if !s.device {
				served = "calls, all right"
			}
			if !strings.Contains(out, served) || !strings.Contains(out, name) || strings.Contains(out, "level=WARN") {
				t.Errorf("%s does not serve:\n%s", name, out)
			}
			if s.device && !strings.Contains(out, "0  "+name+"\n") {
				t.Errorf("rows are served by another than %s:\n%s", name, out)
			}
			if !s.device && !acceptsAll(out, name) {
				t.Errorf("%s does not accept:\n%s", name, out)
			}
		})
	}
}

func acceptsAll(out, name string) bool {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == name && f[2] == "accept" {
			return true
		}
	}
	return false
}

// scaffoldEnv is the environment of a language, for which the test is skipped where it is not to be had.
func scaffoldEnv(t *testing.T, lang string, device bool) []string {
	t.Helper()
	require.Programs(t)
	path := harness.Bin + ":" + filepath.Join(harness.Bin, "programs") + ":" + os.Getenv("PATH")
	env := []string{"GOFLAGS=-buildvcs=false", "GOPROXY=off", "XDG_CACHE_HOME=" + t.TempDir(), "CGO_ENABLED=0", "GOWORK=off"}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, "GOCACHE="+strings.TrimSpace(string(cache)))
	switch lang {
	case "python":
		path = filepath.Dir(require.Python(t, "grpc", "numpy", "google.protobuf")) + ":" + path
	case "c":
		require.Tool(t, "cc")
		require.Tool(t, "make")
	}
	if device {
		// Kernels of the push plugin are no use to the fake driver.
		env = append(env, "LD_LIBRARY_PATH="+harness.FakeLibraries(t), "FAKE_CUDA_DEVICES=2", "WEIR_CASCADE__DISABLED=oneshot,twoshot,hoststaged")
	}
	return append(env, "PATH="+path, "XDG_RUNTIME_DIR="+harness.RunFolder(t))
}

// buildScaffold does what the README says, the tests that it brings included, and returns the plugin's path.
func buildScaffold(t *testing.T, dir, name, lang string, env []string) string {
	t.Helper()
	switch lang {
	case "go":
		mustRun(t, dir, env, "go", "build", "-o", "bin/"+name, ".")
		mustRun(t, dir, env, "go", "vet", ".")
		mustRun(t, dir, env, "go", "test", "./...")
		return filepath.Join(dir, "bin", name)
	case "python":
		mustRun(t, dir, env, "python3", "-m", "unittest")
		return filepath.Join(dir, "backend.py")
	}
	mustRun(t, dir, env, "make", "CFLAGS=-O2 -Werror")
	mustRun(t, dir, env, "make", "CFLAGS=-Werror", "test")
	return filepath.Join(dir, "build", name)
}

// conforms holds the plugin to the rules whose tests are quick; each example's own tests hold it to all.
func conforms(t *testing.T, args, env []string) {
	t.Helper()
	out := mustRun(t, "", env, "weir", append([]string{"plugins", "test", "--run", "process|info|accept|hypothetical|plan|release|worker"}, args...)...)
	m := regexp.MustCompile(`(?m)^(\d+) ok, 0 failed, \d+ skipped`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no report:\n%s", out)
	}
	if n, err := strconv.Atoi(m[1]); err != nil || n < 10 {
		t.Errorf("only %s rules apply:\n%s", m[1], out)
	}
}

// replaceKernel puts a kernel for the fake driver into the place of one for GPUs.
func replaceKernel(t *testing.T, dir string) {
	t.Helper()
	image, err := os.ReadFile(filepath.Join(harness.FakeKernels(t), "right"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sum.ptx"), image, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mustRun is the output of a program that must succeed, in a folder, with more variables.
func mustRun(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok && !strings.Contains(program, "/") {
			for _, d := range filepath.SplitList(path) {
				if info, err := os.Stat(filepath.Join(d, program)); err == nil && info.Mode().IsRegular() {
					program = filepath.Join(d, program)
					break
				}
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestScaffoldsRefused: what cannot be begun, and that nothing is written then.
func TestScaffoldsRefused(t *testing.T) {
	full, dir := t.TempDir(), filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no name":         {[]string{dir, "--kind", "worker"}, "--name: name the backend"},
		"a shipped name":  {[]string{dir, "--name", "shm", "--kind", "worker", "--sdk", "../.."}, "plugins/shm: choose another name"},
		"no kind":         {[]string{dir, "--name", "x"}, "--kind: name the kind of plan; there are go: schedule, kernel, library, worker; python: worker; c: worker"},
		"bad name":        {[]string{dir, "--name", "My Ring", "--kind", "worker", "--sdk", "../.."}, `name "My Ring": use lower-case letters`},
		"no such kind":    {[]string{dir, "--name", "x", "--kind", "ring", "--sdk", "../.."}, `no backend of kind "ring" in language "go" can be begun; there are go: schedule`},
		"no such pair":    {[]string{dir, "--name", "x", "--kind", "kernel", "--lang", "python"}, `no backend of kind "kernel" in language "python"`},
		"no such lang":    {[]string{dir, "--name", "x", "--kind", "worker", "--lang", "rust"}, `in language "rust"`},
		"not empty":       {[]string{full, "--name", "x", "--kind", "worker", "--lang", "c"}, "is not empty: name a new folder"},
		"a file":          {[]string{filepath.Join(full, "x"), "--name", "x", "--kind", "worker", "--lang", "c"}, "is a file: name a new folder"},
		"no source":       {[]string{dir, "--name", "x", "--kind", "worker"}, "a development build, which no module proxy has: name its source with --sdk DIR"},
		"not the source":  {[]string{dir, "--name", "x", "--kind", "worker", "--sdk", full}, "is not Weir's source"},
		"needs no source": {[]string{dir, "--name", "x", "--kind", "worker", "--lang", "c", "--sdk", "../.."}, "takes nothing from Weir's source"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := harness.Weir(t, harness.RunFolder(t), nil, append([]string{"plugins", "new"}, c.args...)...).CombinedOutput()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q in %s", err, c.want, out)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the folder was made")
			}
		})
	}
}

// TestPythonContract: the messages that the Python worker has are those of plugin.proto.
func TestPythonContract(t *testing.T) {
	python := require.Python(t, "grpc", "numpy", "google.protobuf")
	out, err := exec.Command(python, "-c", `
import sys; sys.path.insert(0, "../../examples/backend-python")
import plugin_pb2
sys.stdout.write(plugin_pb2.DESCRIPTOR.serialized_pb.hex())`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := descriptorDiff(t, string(out)); diff != "" {
		t.Errorf("run ./task generate:python (-plugin.proto +plugin_pb2.py):\n%s", diff)
	}
}
