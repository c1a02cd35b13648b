package dl_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/tests/require"
)

const answerSource = `int answer(int x) { return x + 2; }`

// fakeHeader is an ELF header of a 64-bit little-endian shared library for a processor.
func fakeHeader(machine uint16) []byte {
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(h[16:], 3) // ET_DYN
	binary.LittleEndian.PutUint16(h[18:], machine)
	binary.LittleEndian.PutUint32(h[20:], 1)
	binary.LittleEndian.PutUint16(h[52:], 64)
	return h
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	path := func(name string, content []byte) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if content != nil {
			if err := os.WriteFile(p, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	fifo := path("fifo.so", nil)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, library string
		want          []string // parts of the message
	}{
		{"absent, by name", "libweir-absent.so.9", []string{"libweir-absent.so.9: cannot open shared object file: No such file"}},
		{"absent, by path", path("absent.so", nil), []string{"absent.so: no such file or directory"}},
		{"text", path("libnccl.so.2", []byte(strings.Repeat("not a library\n", 100))), []string{dir + "/libnccl.so.2: invalid ELF header"}},
		{"empty", path("empty.so", []byte{}), []string{dir + "/empty.so: file too short"}},
		{"other processor", path("s390.so", fakeHeader(22)), []string{dir + "/s390.so: a library for EM_S390, this is EM_"}},
		{"cut off", path("cut.so", fakeHeader(62)), []string{dir + "/cut.so: "}},
		{"folder", dir, []string{dir + ": not a regular file"}},
		{"fifo", fifo, []string{"fifo.so: not a regular file"}},
		{"no name", "", []string{`library name ""`}},
		{"zero byte", "libc.so.6\x00x", []string{`library name "libc.so.6\x00x"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, err := dl.Open(c.library)
			if err == nil {
				t.Fatalf("opened %s", lib.Path())
			}
			var notFound *dl.NotFoundError
			if !errors.As(err, &notFound) || len(notFound.Tried) != 1 || notFound.Tried[0].Name != c.library {
				t.Errorf("got %#v, want one attempt at %q", err, c.library)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), "absent.so.9") > 1 {
				t.Errorf("the message is not one plain line: %q", err)
			}
		})
	}
	if _, err := dl.Open(); err == nil {
		t.Error("opened a library without a name")
	}
}

func TestEveryNameTriedIsReported(t *testing.T) {
	_, err := dl.Open("libweir-a.so", "/nowhere/libweir-b.so")
	var notFound *dl.NotFoundError
	if !errors.As(err, &notFound) || len(notFound.Tried) != 2 {
		t.Fatalf("got %v, want two attempts", err)
	}
	for _, want := range []string{"libweir-a.so: cannot open", "; /nowhere/libweir-b.so: no such file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to say %q", err, want)
		}
	}
}

// TestMessagesOfThreads opens from many threads at once: each must get the message of its own failure.
func TestMessagesOfThreads(t *testing.T) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			name := "libweir-" + strings.Repeat("x", i+1) + ".so"
			for range 50 {
				if _, err := dl.Open(name); err == nil || !strings.HasPrefix(err.Error(), name+": cannot open") {
					t.Errorf("%s: got %v", name, err)
				}
			}
		})
	}
	group.Wait()
}

func TestFirstThatLoadsIsOpened(t *testing.T) {
	lib, err := dl.Open("libweir-absent.so", "libc.so.6", "libm.so.6")
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(lib.Path()) || !strings.HasPrefix(filepath.Base(lib.Path()), "libc") {
		t.Errorf("the path is %q, want the absolute path of libc", lib.Path())
	}
	if _, err := os.Stat(lib.Path()); err != nil {
		t.Error(err)
	}
	var abs func(int32) int32
	if err := lib.Bind(&abs, "abs"); err != nil || abs(-7) != 7 {
		t.Errorf("abs: %v", err)
	}
	_, err = lib.Symbol("weir_absent")
	var missing *dl.SymbolError
	if !errors.As(err, &missing) || missing.Symbol != "weir_absent" || missing.Library != lib.Path() || lib.Has("weir_absent") {
		t.Errorf("an absent symbol gives %v", err)
	}
	if err := lib.Bind(&abs, "weir_absent"); err == nil {
		t.Error("bound to an absent symbol")
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}

func TestLibraryBuiltHere(t *testing.T) {
	path := require.Library(t, "libanswer.so.1", answerSource)
	lib, err := dl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if lib.Path() != path {
		t.Errorf("path %s, want %s", lib.Path(), path)
	}
	var answer func(int32) int32
	if err := lib.Bind(&answer, "answer"); err != nil || answer(40) != 42 {
		t.Errorf("answer: %v", err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(maps), path) {
		t.Error("the library is still mapped after Close")
	}
}
