package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/files"
)

const most = 1000

func made(t *testing.T, name string, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(fifo(t), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		size int
		want string // of the error
	}{
		"file":            {made(t, "f", 500), 500, ""},
		"empty":           {made(t, "f", 0), 0, ""},
		"as much as read": {made(t, "f", most), most, ""},
		"a byte more":     {made(t, "f", most+1), 0, "too large: more than the 1000 bytes that are read"},
		"null":            {"/dev/null", 0, ""},
		"missing":         {"/nowhere", 0, "no such file"},
		"folder":          {t.TempDir(), 0, "this is a directory; name a file"},
		"endless":         {"/dev/zero", 0, "this is a device"},
		"silent":          {"/dev/ptmx", 0, "this is a device"},
		"pipe":            {fifo(t), 0, "this is a named pipe; hand it over with <"},
		"link to a pipe":  {link, 0, "this is a named pipe"},
		"socket":          {socket, 0, "this is a socket"},
		"not open":        {"/dev/fd/987654", 0, "bad file descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := files.Read(t.Context(), c.path, most)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) && !errors.Is(err, files.ErrTooLarge)) {
				t.Fatalf("%d bytes, error %v, want %q", len(text), err, c.want)
			}
			if err == nil && len(text) != c.size {
				t.Errorf("%d bytes, want %d", len(text), c.size)
			}
		})
	}
}

// What a shell makes of <(command): a pipe without a name, of this process or as /dev/stdin.
func TestHandedOver(t *testing.T) {
	for _, path := range []string{"/dev/fd/%d", "/proc/self/fd/%d", fmt.Sprintf("/proc/%d/fd/%%d", os.Getpid())} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = w.WriteString("from elsewhere"); _ = w.Close() }()
		text, err := files.Read(t.Context(), fmt.Sprintf(path, r.Fd()), most)
		if err != nil || string(text) != "from elsewhere" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		_ = r.Close()
	}
}

// A pipe of which nobody says that it has ended.
func TestDone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan struct{})
	go func() { <-began; cancel(why) }()
	err = files.With(ctx, fmt.Sprintf("/dev/fd/%d", r.Fd()), most, func(r io.Reader) error {
		close(began)
		_, err := io.ReadAll(r)
		return err
	})
	if !errors.Is(err, why) {
		t.Errorf("ended with %v", err)
	}
}

// A reader that has begun ends too once it is told.
func TestBounded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := files.Bounded(ctx, strings.NewReader("abcdef"), most)
	first := make([]byte, 2)
	if n, err := r.Read(first); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	cancel(io.ErrClosedPipe)
	if rest, err := io.ReadAll(r); len(rest) > 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestWrite(t *testing.T) {
	path := made(t, "f", 500)
	if err := files.Write(path, []byte("anew"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := files.Append(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString(", more"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); f.Close() != nil || string(text) != "anew, more" {
		t.Errorf("%q", text)
	}
	pipe := fifo(t)
	if err := files.Write(pipe, nil, 0o600); err == nil || !strings.Contains(err.Error(), "a pipe that nobody reads") {
		t.Errorf("a pipe that nobody reads: %v", err)
	}
	r, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := files.Write(pipe, []byte("read"), 0o600); err != nil {
		t.Error(err)
	}
	if text, err := io.ReadAll(r); string(text) != "read" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
