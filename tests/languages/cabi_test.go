package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// compileC builds a C program against libweir.so.
func compileC(t testing.TB, source string, flags ...string) string {
	t.Helper()
	lib := harness.CLibrary(t)
	program := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-o", program, source}, flags...)
	args = append(args, "-I"+lib, "-L"+lib, "-lweir", "-lpthread", "-Wl,-rpath,"+lib)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %s: %s\n%s", strings.Join(args, " "), err, out)
	}
	return program
}

// TestCLibrary runs C programs as ranks, as they are and with the compiler's checks of their memory.
func TestCLibrary(t *testing.T) {
	require.Long(t)
	for _, p := range []struct{ name, ranks string }{{"groups", "4"}, {"arguments", "2"}, {"fork", "2"}, {"faults", "2"}, {"abort", "2"}} {
		source := filepath.Join("testdata", "cabi", p.name+".c")
		t.Run(p.name, func(t *testing.T) {
			out := harness.WeirRun(t, nil, "-n", p.ranks, "--", compileC(t, source))
			if n := strings.Count(out, "right\n"); n != int(p.ranks[0]-'0') {
				t.Errorf("%d ranks end right, want %s:\n%s", n, p.ranks, out)
			}
		})
		t.Run(p.name+"/sanitized", func(t *testing.T) {
			program := compileC(t, source, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
			out := harness.WeirRun(t, nil, "-n", p.ranks, "--", program)
			if strings.Contains(out, "Sanitizer") || strings.Contains(out, "runtime error") {
				t.Errorf("the sanitizer found something:\n%s", out)
			}
		})
	}
}

// TestCExample builds the example as its first lines say, with pkg-config where there is one.
func TestCExample(t *testing.T) {
	require.Long(t)
	lib := harness.CLibrary(t)
	var flags []string
	if pkgConfig, err := exec.LookPath("pkg-config"); err == nil {
		c := exec.Command(pkgConfig, "--cflags", "--libs", "weir")
		c.Env = append(os.Environ(), "PKG_CONFIG_PATH="+lib)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %s\n%s", c, err, out)
		}
		if flags = strings.Fields(string(out)); len(flags) < 2 {
			t.Errorf("pkg-config says %q", out)
		}
	}
	program := compileC(t, "../../examples/c/all_reduce.c", flags...)
	out := harness.WeirRun(t, nil, "-n", "3", "--", program)
	version, err := exec.Command(filepath.Join(harness.Bin, "weir"), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"0", "1", "2"} { // the library is of the engine's version
		if line := "rank " + r + " of 3: element 0 is 3, by shm-flat, " + string(version); !strings.Contains(out, line) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}

// TestCHeader has compilers of other languages and of old C take weir.h, and holds it to what the library has.
func TestCHeader(t *testing.T) {
	require.Long(t)
	lib := harness.CLibrary(t)
	for _, c := range [][]string{{"-std=c99", "-x", "c"}, {"-std=c++11", "-x", "c++"}} {
		compiler := "cc"
		if c[2] == "c++" {
			if _, err := exec.LookPath("c++"); err != nil {
				continue
			}
			compiler = "c++"
		}
		args := append(c, "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only", filepath.Join(lib, "weir.h"))
		if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil && !strings.Contains(string(out), "cannot execute") {
			t.Errorf("%s %v: %s\n%s", compiler, args, err, out)
		}
	}
	header, err := os.ReadFile(filepath.Join(lib, "weir.h"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`WEIR_API [a-z_ ]+\*?(weir_\w+)\(`).FindAllStringSubmatch(string(header), -1)
	nm, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(lib, "libweir.so")).Output()
	if err != nil {
		t.Skipf("nm is needed: %s", err)
	}
	exported := regexp.MustCompile(` [A-Z] (\S+)`).FindAllStringSubmatch(string(nm), -1)
	if len(exported) != len(declared) || len(declared) == 0 {
		t.Errorf("%d functions declared, %d symbols exported:\n%s", len(declared), len(exported), nm)
	}
	for _, d := range declared {
		if !strings.Contains(string(nm), " "+d[1]+"\n") {
			t.Errorf("%s is declared and not exported", d[1])
		}
	}
}
