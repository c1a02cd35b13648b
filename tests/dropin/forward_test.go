package dropin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// ncclNames are the functions of the drop-in's list, without nccl before them; own are those that it writes itself.
func ncclNames(t *testing.T) (forwarded, own []string) {
	t.Helper()
	list, err := os.ReadFile("../../sdk/nccl-dropin/symbols.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(FORWARD|USED|OWN)\((\w+)\)$`).FindAllStringSubmatch(string(list), -1) {
		if m[1] == "OWN" {
			own = append(own, m[2])
		} else {
			forwarded = append(forwarded, m[2])
		}
	}
	if len(forwarded) < 50 || len(own) < 20 {
		t.Fatalf("the list has %d and %d names", len(forwarded), len(own))
	}
	return forwarded, own
}

// preloaded runs a program with libraries preloaded.
func preloaded(t *testing.T, env []string, preload, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = slices.Concat(os.Environ(), env, []string{"LD_PRELOAD=" + preload})
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %s", program, err)
	}
	return string(out)
}

func compile(t *testing.T, out, source string, flags ...string) string {
	t.Helper()
	file := out + ".c"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command(require.Tool(t, "cc"), slices.Concat([]string{"-O1", "-o", out, file}, flags)...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %s\n%s", err, b)
	}
	return out
}

// TestDropInForwardsArguments calls every function with arguments of every kind, in registers and on the stack, against a library
// whose functions say what they were given.
func TestDropInForwardsArguments(t *testing.T) {
	forwarded, own := ncclNames(t)
	var names []string
	for _, n := range forwarded {
		names = append(names, "nccl"+n, "pnccl"+n)
	}
	for _, n := range own {
		names = append(names, "pnccl"+n)
	}
	const parameters = "(long a, double x, long b, long c, double y, long d, long e, long f, long g, double z, long h)"
	var library, program strings.Builder
	library.WriteString("typedef struct { long code; double sum; } pair;\nint ncclAllReduce(void) { return 0; }\n")
	program.WriteString("#include <stdio.h>\ntypedef struct { long code; double sum; } pair;\n")
	for i, n := range names {
		fmt.Fprintf(&library, "pair %s%s { return (pair){%d + a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h, x + 2*y + 3*z}; }\n", n, parameters, 100000*i)
		fmt.Fprintf(&program, "pair %s%s;\n", n, parameters)
	}
	program.WriteString("int main(void) {\n\tint wrong = 0;\n\tfor (int twice = 0; twice < 2; twice++) {\n")
	for i, n := range names {
		fmt.Fprintf(&program, "\t\t{ pair p = %s(11, 0.5, 12, 13, 0.25, 14, 15, 16, 17, 0.125, 18); if (p.code != %d || p.sum != 1.375) wrong++, printf(\"%s: %%ld %%g\\n\", p.code, p.sum); }\n",
			n, 100000*i+11+2*12+3*13+4*14+5*15+6*16+7*17+8*18, n)
	}
	program.WriteString("\t}\n\tif (!wrong) puts(\"right\");\n\treturn wrong;\n}\n")
	lib := dropIn(t)
	dir := t.TempDir()
	real := compile(t, filepath.Join(dir, "libnccl.so.2"), library.String(), "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
	caller := compile(t, filepath.Join(dir, "caller"), program.String(), "-fno-builtin", real)
	if out := preloaded(t, []string{"LD_LIBRARY_PATH=" + dir}, lib, caller); out != "right\n" {
		t.Error(out)
	}
}

// TestDropInForwardsWork calls every function that puts work on a stream, in and out of a group call, against a library that hashes what it
// is given.
func TestDropInForwardsWork(t *testing.T) {
	source, err := os.ReadFile("../../sdk/nccl-dropin/streams.c")
	if err != nil {
		t.Fatal(err)
	}
	const pair = "\tsum = sum * 31 + (long)%s;\n"
	var library, program strings.Builder
	library.WriteString("static long sum;\nlong given(void) { return sum; }\nint ncclAllReduce(void) { return 0; }\nint ncclGroupStart(void) { return 0; }\nint ncclGroupEnd(void) { return 0; }\n")
	program.WriteString("#include <stdio.h>\n#include <stddef.h>\nlong given(void);\nint ncclGroupStart(void), ncclGroupEnd(void);\ntypedef void *ncclComm_t, *cudaStream_t;\n")
	library.WriteString("#include <stddef.h>\ntypedef void *ncclComm_t, *cudaStream_t;\n")
	var calls strings.Builder
	functions := regexp.MustCompile(`(?m)^WORK\((\w+), (\([^)]*\)),\s+([^)]*)\)$`).FindAllStringSubmatch(string(source), -1)
	if len(functions) < 13 {
		t.Fatalf("%d functions", len(functions))
	}
	for _, f := range functions {
		fmt.Fprintf(&library, "int %s%s {\n\tsum = 0;\n", f[1], f[2])
		fmt.Fprintf(&program, "int %s%s;\n", f[1], f[2])
		var arguments []string
		want := 0
		for i, name := range strings.Split(f[3], ", ") {
			fmt.Fprintf(&library, pair, name)
			arguments = append(arguments, fmt.Sprintf("(%s)%d", map[bool]string{true: "void *", false: "long"}[slices.Contains([]string{"src", "dst", "data", "window", "signals", "comm", "stream"}, name)], 101+i))
			want = want*31 + 101 + i
		}
		library.WriteString("\treturn 6;\n}\n")
		fmt.Fprintf(&calls, "\t\tif (%s(%s) != 6 || given() != %dL) wrong++, puts(\"%s\");\n", f[1], strings.Join(arguments, ", "), want, f[1])
	}
	fmt.Fprintf(&program, "int main(void) {\n\tint wrong = 0;\n\tfor (int grouped = 0; grouped < 2; grouped++) {\n\t\tif (grouped) ncclGroupStart();\n%s\t\tif (grouped) ncclGroupEnd();\n\t}\n\tif (!wrong) puts(\"right\");\n\treturn wrong;\n}\n", calls.String())
	lib, dir := dropIn(t), t.TempDir()
	real := compile(t, filepath.Join(dir, "libnccl.so.2"), library.String(), "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
	caller := compile(t, filepath.Join(dir, "caller"), program.String(), real)
	if out := preloaded(t, []string{"LD_LIBRARY_PATH=" + dir}, lib, caller); out != "right\n" {
		t.Error(out)
	}
}

// TestDropInFindsTheRealLibrary looks where the loader would have found it, and where Python packages have it.
func TestDropInFindsTheRealLibrary(t *testing.T) {
	lib, dir := dropIn(t), t.TempDir()
	packages := filepath.Join(dir, "site-packages")
	for _, d := range []string{"a", "b", "site-packages/nvidia/nccl/lib", "site-packages/torch/lib"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyOf := func(version, where string) string {
		path := filepath.Join(dir, where, "libnccl.so.2")
		return compile(t, path, "int ncclAllReduce(void){return 0;} int ncclGetVersion(int *v){*v="+version+";return 0;} const char *ncclGetErrorString(int r){return \"e\";} const char *ncclGetLastError(void *c){return \"l\";}",
			"-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
	}
	a := copyOf("1", "a")
	copyOf("2", "b")
	copyOf("3", "site-packages/nvidia/nccl/lib")
	probe := func(name string, flags ...string) string {
		source, err := os.ReadFile("testdata/probe.c")
		if err != nil {
			t.Fatal(err)
		}
		return compile(t, filepath.Join(dir, name), string(source), append(flags, a)...)
	}
	inRpath := probe("rpath", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/b")
	inRunpath := probe("runpath", "-Wl,--enable-new-dtags,-rpath,"+filepath.Join(dir, "b"))
	plain := probe("plain")
	torch := compile(t, filepath.Join(packages, "torch", "lib", "libtorch.so"), "int torch;", "-shared", "-fPIC")
	for name, c := range map[string]struct {
		program, preload string
		env              []string
		want             string
	}{
		"RPATH":              {inRpath, lib, []string{"LD_LIBRARY_PATH=" + dir + "/a"}, "result 0 version 2 error e last l\n"},
		"LD_LIBRARY_PATH":    {inRunpath, lib, []string{"LD_LIBRARY_PATH=" + dir + "/none:" + dir + "/a"}, "result 0 version 1 error e last l\n"},
		"RUNPATH":            {inRunpath, lib, nil, "result 0 version 2 error e last l\n"},
		"a Python package":   {plain, lib + ":" + torch, nil, "result 0 version 3 error e last l\n"},
		"already loaded":     {plain, lib + ":" + a, []string{"LD_LIBRARY_PATH=" + dir + "/b"}, "result 0 version 1 error e last l\n"},
		"WEIR_NCCL_LIB":      {inRpath, lib, []string{"WEIR_NCCL_LIB=" + a}, "result 0 version 1 error e last l\n"},
		"WEIR_NCCL_LIB self": {inRpath, lib, []string{"WEIR_NCCL_LIB=" + lib}, "it does not open, or is this library\nresult 2 version 0 error the real NCCL is not there"},
		"WEIR_NCCL_LIB name": {inRpath, lib, []string{"WEIR_NCCL_LIB=libnccl.so.2"}, "it does not begin with /\nresult 2 version 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if out := preloaded(t, c.env, c.preload, c.program, "version"); !strings.Contains(out, c.want) {
				t.Errorf("got %q, want %q", out, c.want)
			}
		})
	}
}

// TestDropInNewerNCCL asks for a function that a newer NCCL has.
func TestDropInNewerNCCL(t *testing.T) {
	lib, newer := dropIn(t), fakegpu.NCCL(t, "-DNEWER")
	fakes := filepath.Join(harness.Bin, "fakegpu")
	env := []string{"LD_LIBRARY_PATH=" + filepath.Dir(newer) + ":" + fakes}
	source, err := os.ReadFile("testdata/probe.c")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lazy := compile(t, filepath.Join(dir, "lazy"), string(source), "-DNEWER", "-Wl,-z,lazy", newer)
	now := compile(t, filepath.Join(dir, "now"), string(source), "-DNEWER", "-Wl,-z,now", newer)
	const want = "new 42\n"
	for _, what := range []string{"call", "default"} {
		if out := preloaded(t, env, lib, lazy, what); out != want {
			t.Errorf("%s: %q", what, out)
		}
	}
	for _, what := range []string{"call", "default"} {
		if out := preloaded(t, env, lib+":"+newer, now, what); out != want {
			t.Errorf("bound at once, both preloaded: %s: %q", what, out)
		}
	}
	t.Run("as a dependency", func(t *testing.T) {
		patched := filepath.Join(dir, "libweir-nccl.so.2")
		code, err := os.ReadFile(lib)
		if err == nil {
			err = os.WriteFile(patched, code, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(require.Tool(t, "patchelf"), "--add-needed", newer, patched).CombinedOutput(); err != nil {
			t.Fatalf("patchelf: %s\n%s", err, out)
		}
		for _, what := range []string{"call", "default", "handle"} {
			if out := preloaded(t, env, patched, now, what); out != want {
				t.Errorf("%s: %q", what, out)
			}
		}
	})
}

// TestDropInSleeps holds that a process that makes no communicator has neither Go's runtime nor, before the first call, NCCL.
func TestDropInSleeps(t *testing.T) {
	lib := dropIn(t)
	probe := linked(t, "probe.c")
	out := preloaded(t, []string{"LD_LIBRARY_PATH=" + harness.FakeLibraries(t)}, lib, probe, "maps")
	if !strings.Contains(out, "/libweir-nccl.so.2\n") || !strings.Contains(out, "/libnccl.so.2\n") || strings.Contains(out, "libweir.so") {
		t.Errorf("after a call that is forwarded:\n%s", out)
	}
	out = preloaded(t, nil, lib, require.Tool(t, "sh"), "-c", "cat /proc/self/maps; cat /proc/self/status; cc --version >/dev/null && echo compiled")
	if !strings.Contains(out, "/libweir-nccl.so.2\n") || strings.Contains(out, "/libnccl.so") || strings.Contains(out, "libweir.so") ||
		!strings.Contains(out, "Threads:\t1\n") || !strings.Contains(out, "SigCgt:\t0000000000000000\n") || !strings.Contains(out, "compiled\n") {
		t.Errorf("in a shell:\n%s", out)
	}
}
