// Package fakegpu builds a CUDA driver and a library with the NCCL ABI that work on host memory, for tests without a GPU.
package fakegpu

import (
	_ "embed" // for the sources
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/kernel"
	"github.com/weir-project/weir/tests/require"
)

//go:embed source/cuda.c
var cudaSource string

//go:embed source/nccl.c
var ncclSource string

//go:embed source/kernel.c
var kernelSource string

// KernelBytes is the size of the buffers of Kernel's plan.
const KernelBytes = 1 << 20

// Kernel builds kernels for the driver and returns a plan with them for float32 and int32 sums of groups of up to four
// ranks: two rows for float32, the upper one of a function with arguments of its own. Flags are the compiler's; those that
// make the kernels wrong are said in the source.
func Kernel(t testing.TB, flags ...string) *plan.Kernel {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, kernel.HeaderName), kernel.Header, 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(build(t, dir, "kernel.so", kernelSource, append(flags, "-Wall", "-Wextra", "-Werror")))
	if err != nil {
		t.Fatal(err)
	}
	const few, most = 1000, KernelBytes / 16 / 4 * 4 // the last for four ranks, of 4 bytes each
	named := []plan.Argument{
		plan.ArgNull, plan.ArgIn, plan.ArgOut, plan.ArgCount, plan.ArgRank, plan.ArgWorld, plan.ArgHash, plan.ArgID, plan.ArgBuffers, plan.ArgControl, plan.ArgStatus,
	}
	return &plan.Kernel{
		Image: image, BufferBytes: KernelBytes, Buffer: plan.DeviceBuffer, PollsAbort: true, MinDriver: "11.4",
		Launches: []plan.Launch{
			{DataType: "float32", Min: few + 1, Max: most, Function: "sum_named", Grid: 4, Block: 32, Arguments: named},
			{DataType: "float32", Min: 1, Max: few, Function: "sum_f32", Grid: 2, Block: 32},
			{DataType: "int32", Min: 1, Max: most, Function: "sum_i32", Grid: 2, Block: 32},
		},
	}
}

// CUDA builds the driver and returns its path, whose folder may be given as LD_LIBRARY_PATH. Flags are the compiler's.
func CUDA(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, t.TempDir(), "libcuda.so.1", cudaSource, flags)
}

// NCCL builds the library; -DNO_SCALABLE, -DNO_CONFIG, -DNO_ALLREDUCE and -DNO_WINDOWS leave functions out, -DNEWER adds one, and with -DIDLE
// an all-reduce does nothing.
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
