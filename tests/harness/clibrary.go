package harness

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

var libweir struct {
	once sync.Once
	out  []byte
	err  error
}

// CLibrary is the folder of libweir.so and weir.h, which are built once for each package.
func CLibrary(t testing.TB) string {
	t.Helper()
	require.Programs(t)
	require.Tool(t, "cc")
	dir := filepath.Join(scratch, "lib")
	libweir.once.Do(func() { libweir.out, libweir.err = exec.Command("../../sdk/cabi/build", dir).CombinedOutput() })
	if libweir.err != nil {
		t.Fatalf("build libweir.so: %s\n%s", libweir.err, libweir.out)
	}
	return dir
}
