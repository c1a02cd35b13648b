package exec

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/tests/await"
)

// TestLibraryPathThatIsNone: whatever a plugin's plan names, it is declined, at once.
func TestLibraryPathThatIsNone(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int64) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("no library"), 0o644), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo, dangling := filepath.Join(dir, "fifo.so"), filepath.Join(dir, "link.so")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o644), os.Symlink(fifo, dangling)); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"FIFO": fifo, "link to a FIFO": dangling, "folder": dir, "device": "/dev/zero", "empty file": file("empty.so", 0), "text": file("text.so", 10),
		"huge file": file("huge.so", 1<<40), "absent": filepath.Join(dir, "absent.so"), "memory of the process": "/proc/self/mem",
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, _, err := OpenLibrary(&plan.Library{Path: path, Version: "2.28.9", Variant: "rccl"}, nil, collective.HostGroup("g", 2), 0, nil)
				done <- err
			}()
			err := await.Receive(t, "an answer", done)
			var f *backend.Fault
			if !errors.As(err, &f) || f.Code != backend.LibMissing {
				t.Errorf("error %v, want LIB_MISSING", err)
			}
		})
	}
}
