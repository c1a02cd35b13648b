package require

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Library builds a shared library from C source in a folder of the test's own and returns its absolute path.
func Library(t testing.TB, name, source string) string {
	t.Helper()
	cc := Tool(t, "cc")
	dir := t.TempDir()
	file, library := filepath.Join(dir, "source.c"), filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(cc, "-shared", "-fPIC", "-O0", "-Wl,-soname,"+name, "-o", library, file)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return library
}
