package sealed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/sealed"
)

const readWrite = unix.PROT_READ | unix.PROT_WRITE

func TestSharedMemory(t *testing.T) {
	f, err := sealed.New("test", 8192)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, err := range []error{unix.Ftruncate(int(f.Fd()), 4096), unix.Ftruncate(int(f.Fd()), 16384)} {
		if err == nil {
			t.Error("its size was changed")
		}
	}
	a, err := sealed.Map(f, 4096, readWrite)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sealed.MapAll(f, unix.PROT_READ)
	if err != nil {
		t.Fatal(err)
	}
	if a[7] = 3; len(a) != 4096 || len(b) != 8192 || b[7] != 3 {
		t.Errorf("%d and %d bytes are mapped, byte 7 is %d", len(a), len(b), b[7])
	}
	if err := unix.Munmap(a); err != nil {
		t.Error(err)
	}
	if err := unix.Munmap(b); err != nil {
		t.Error(err)
	}
}

// TestRefused: whatever a peer hands over in place of shared memory.
func TestRefused(t *testing.T) {
	short, err := sealed.New("short", 100)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	regular, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	memfd := func(seals int) *os.File {
		fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, 4096)
		}
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "test")
	}
	for name, c := range map[string]struct {
		f    *os.File
		size int64
		want string
	}{
		"too short":         {short, 101, "100 bytes, want 101"},
		"nothing":           {short, 0, "want 0"},
		"an overflow":       {short, -1 << 63, "100 bytes, want"},
		"a pipe":            {r, 1, "not sealed"},
		"a regular file":    {regular, 1, "not sealed"},
		"a folder":          {folder, 1, "not sealed"},
		"not sealed":        {memfd(0), 4096, "not sealed"},
		"may grow":          {memfd(unix.F_SEAL_SHRINK), 4096, "not sealed"},
		"may shrink":        {memfd(unix.F_SEAL_GROW), 4096, "not sealed"},
		"cannot be written": {memfd(unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE), 4096, "map 4096 bytes"},
	} {
		defer c.f.Close()
		t.Run(name, func(t *testing.T) {
			if m, err := sealed.Map(c.f, c.size, readWrite); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d bytes, %v; want %q", len(m), err, c.want)
			}
		})
	}
	_ = w.Close()
}
