// Package fakegpu builds a CUDA driver and a library with the NCCL ABI that work on host memory, for tests without a GPU.
package fakegpu

import (
	_ "embed" // for the sources
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

//go:embed source/cuda.c
var cudaSource string

//go:embed source/nccl.c
var ncclSource string

// CUDA builds the driver and returns its path, whose folder may be given as LD_LIBRARY_PATH. Flags are the compiler's.
func CUDA(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, t.TempDir(), "libcuda.so.1", cudaSource, flags)
}

// NCCL builds the library; -DNO_SCALABLE, -DNO_CONFIG, -DNO_ALLREDUCE and -DNO_WINDOWS leave functions out.
func NCCL(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, t.TempDir(), "libnccl.so.2", ncclSource, flags)
}

// Both builds the two into a folder.
func Both(t testing.TB, dir string) {
	t.Helper()
	build(t, dir, "libcuda.so.1", cudaSource, nil)
	build(t, dir, "libnccl.so.2", ncclSource, nil)
}

func build(t testing.TB, dir, name, source string, flags []string) string {
	t.Helper()
	cc := require.Tool(t, "cc")
	file, library := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wl,-soname," + name, "-o", library, file}, flags...)
	if out, err := exec.Command(cc, append(args, "-lpthread", "-ldl", "-lm")...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return library
}
