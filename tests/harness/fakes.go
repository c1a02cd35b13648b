package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/require"
)

// fakes builds the fake driver, the fake NCCL and kernels for the driver once for all packages, and anew when their sources change.
var fakes = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(Bin, "fakegpu-"+fakegpu.Digest())
	return dir, locked(Bin, func() error {
		if _, err := os.Stat(dir); err == nil {
			return nil
		}
		made, err := os.MkdirTemp(Bin, "fakegpu")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		if err := errors.Join(fakegpu.Both(made), fakeKernels(filepath.Join(made, "kernels"))); err != nil {
			return err
		}
		return os.Rename(made, dir)
	})
})

func fakeKernels(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, flag := range map[string]string{
		"right": "-DRIGHT", "wrong": "-DWRONG=1", "deaf": "-DDEAF", "hasty": "-DHASTY", "crash": "-DCRASH=1", "late-crash": "-DCRASH=1 -DCRASH_AT=200",
		"endless": "-DENDLESS", "other-header": "-DOTHER_VERSION",
	} {
		if err := fakegpu.BuildKernel(filepath.Join(dir, name), strings.Fields(flag)...); err != nil {
			return err
		}
	}
	return nil
}

// FakeLibraries is the folder of the fake driver and the fake NCCL. There is one only: a process can have one driver.
func FakeLibraries(t testing.TB) string {
	t.Helper()
	require.Tool(t, "cc")
	dir, err := fakes()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// FakeKernels are images of kernels for the fake driver: right ones, and others that are wrong as their names say.
func FakeKernels(t testing.TB) string {
	t.Helper()
	return filepath.Join(FakeLibraries(t), "kernels")
}

// FakeNCCL is the path of the fake NCCL.
func FakeNCCL(t testing.TB) string {
	t.Helper()
	return filepath.Join(FakeLibraries(t), "libnccl.so.2")
}
