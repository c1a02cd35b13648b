// Package fakegpu builds a CUDA driver and a library with the NCCL ABI that work on host memory, for tests without a GPU.
package fakegpu

import (
	"crypto/sha256"
	_ "embed" // for the sources
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/kernel"
	"github.com/weir-project/weir/tests/require"
)

//go:embed source/cuda.c
var cudaSource string

//go:embed source/nccl.c
var ncclSource string

//go:embed source/nccl_group.c
var groupSource string

//go:embed source/kernel.c
var kernelSource string

// nccl is the library in one piece.
func nccl() string { return strings.Replace(ncclSource, "#include \"nccl_group.c\"\n", groupSource, 1) }

// Digest changes with what is built here.
func Digest() string {
	sum := sha256.Sum256(slices.Concat([]byte(cudaSource+nccl()+kernelSource), kernel.Header))
	return hex.EncodeToString(sum[:8])
}

// KernelBytes is the size of the buffers of Kernel's plan.
const KernelBytes = 1 << 20

// Kernel builds kernels for the driver and returns a plan with them for float32 and int32 sums of groups of up to four
// ranks: two rows for float32, the upper one of a function with arguments of its own. Flags are the compiler's; those that
// make the kernels wrong are said in the source.
func Kernel(t testing.TB, flags ...string) *plan.Kernel {
	t.Helper()
	require.Tool(t, "cc")
	path := filepath.Join(t.TempDir(), "kernel.so")
	if err := BuildKernel(path, flags...); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
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

// BuildKernel builds the kernels into a file, which is the image of a plan.
func BuildKernel(path string, flags ...string) error {
	dir, err := os.MkdirTemp("", "weir-kernel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, kernel.HeaderName), kernel.Header, 0o600); err != nil {
		return err
	}
	return compile(path, "kernel.so", kernelSource, append(flags, "-Wall", "-Wextra", "-Werror", "-I"+dir))
}

// CUDA builds the driver and returns its path, whose folder may be given as LD_LIBRARY_PATH. Flags are the compiler's.
func CUDA(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, "libcuda.so.1", cudaSource, flags)
}

// NCCL builds the library; -DNO_SCALABLE, -DNO_CONFIG, -DNO_ALLREDUCE and -DNO_WINDOWS leave functions out, -DNEWER adds one, and with -DIDLE
// an all-reduce does nothing.
func NCCL(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, "libnccl.so.2", nccl(), flags)
}

// Both builds the two into a folder.
func Both(dir string) error {
	return errors.Join(compile(filepath.Join(dir, "libcuda.so.1"), "libcuda.so.1", cudaSource, nil),
		compile(filepath.Join(dir, "libnccl.so.2"), "libnccl.so.2", nccl(), nil))
}

func build(t testing.TB, name, source string, flags []string) string {
	t.Helper()
	require.Tool(t, "cc")
	library := filepath.Join(t.TempDir(), name)
	if err := compile(library, name, source, flags); err != nil {
		t.Fatal(err)
	}
	return library
}

// compile builds a library whose own name may differ from that of its file.
func compile(library, name, source string, flags []string) error {
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wl,-soname," + name, "-o", library, "-xc", "-"}, flags...)
	cc := exec.Command("cc", append(args, "-lpthread", "-ldl", "-lm")...)
	cc.Stdin = strings.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}
