package tests

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weir-project/weir/tests/fakegpu"
)

var fakeImages sync.Once

// fakeKernels is the folder of the kernel images that the fake driver runs, each wrong in the way that its name says.
func fakeKernels(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(fakeLibraries(t), "kernels")
	fakeImages.Do(func() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, flags := range map[string][]string{
			"none":            nil,
			"wrong_sum":       {"-DWRONG=0"},
			"hasty":           {"-DHASTY"},
			"deaf":            {"-DDEAF"},
			"illegal_address": {"-DCRASH=1"},
			"other_header":    {"-DOTHER_VERSION"},
			"endless":         {"-DENDLESS"},
		} {
			if err := os.WriteFile(filepath.Join(dir, name+".so"), fakegpu.Kernel(t, flags...).Image, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}
