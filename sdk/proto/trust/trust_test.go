package trust_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/sdk/proto/trust"
)

const stranger = 65534

// place is a folder of this user with a folder "sub" and in it a file "file".
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "trust")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Mkdir(dir+"/sub", 0o755))
	must(t, os.WriteFile(dir+"/sub/file", nil, 0o644))
	return dir
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestPath goes to files and folders that others could change, in every way that leads there.
func TestPath(t *testing.T) {
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		spoil func(dir string) error
		path  string // below the folder
		want  string // %d for the folder; "" if it is fine
		root  bool
	}{
		"fine":             {path: "sub/file"},
		"itself, others":   {spoil: func(d string) error { return os.Chmod(d+"/sub/file", 0o646) }, path: "sub/file", want: "%d/sub/file may be changed by other users (mode 0646): chmod go-w %d/sub/file"},
		"above, others":    {spoil: func(d string) error { return os.Chmod(d+"/sub", 0o757) }, path: "sub/file", want: "others could replace %d/sub/file: %d/sub may be changed"},
		"above that":       {spoil: func(d string) error { return os.Chmod(d, 0o777) }, path: "sub/file", want: "others could replace %d/sub/file: %d may be changed by other users (mode 0777): chmod go-w %d"},
		"sticky":           {spoil: func(d string) error { return os.Chmod(d, 0o777|os.ModeSticky) }, path: "sub/file"},
		"setgid, others":   {spoil: func(d string) error { return os.Chmod(d, 0o777|os.ModeSetgid) }, path: "sub/file", want: "%d may be changed"},
		"group":            {spoil: func(d string) error { return os.Chmod(d+"/sub", 0o775) }, path: "sub/file", want: "%d/sub may be changed", root: true},
		"itself, stranger": {spoil: func(d string) error { return os.Chown(d+"/sub/file", stranger, -1) }, path: "sub/file", want: "%d/sub/file belongs to user 65534, neither you (0) nor root", root: true},
		"above, stranger":  {spoil: func(d string) error { return os.Chown(d, stranger, -1) }, path: "sub/file", want: "others could replace %d/sub/file: %d belongs to user 65534, neither you (0) nor root", root: true},
		"sticky, stranger": {spoil: func(d string) error { return errors.Join(os.Chown(d, stranger, -1), os.Chmod(d, 0o777|os.ModeSticky)) }, path: "sub/file", want: "%d belongs to user 65534", root: true},
		"link": {
			spoil: func(d string) error { return os.Symlink("sub/file", d+"/link") }, path: "link",
		},
		"link of a stranger": {
			spoil: func(d string) error {
				return errors.Join(os.Symlink("sub/file", d+"/link"), os.Lchown(d+"/link", stranger, -1))
			},
			path: "link", want: "%d/link belongs to user 65534", root: true,
		},
		"link through an open folder": {
			spoil: func(d string) error {
				return errors.Join(os.Mkdir(d+"/open", 0o755), os.Symlink("../sub", d+"/open/link"), os.Chmod(d+"/open", 0o777))
			},
			path: "open/link/file", want: "others could replace %d/open/link/file: %d/open may be changed",
		},
		"link to an open folder": {
			spoil: func(d string) error { return errors.Join(os.Chmod(d+"/sub", 0o757), os.Symlink(d+"/sub", d+"/link")) },
			path:  "link/file", want: "others could replace %d/link/file: %d/sub may be changed",
		},
		"back out of an open folder": {
			spoil: func(d string) error {
				return errors.Join(os.Mkdir(d+"/open", 0o755), os.Chmod(d+"/open", 0o777))
			},
			path: "open/../sub/file", want: "%d/open may be changed",
		},
		"back out of a link": { // as the kernel understands it, not as words
			spoil: func(d string) error {
				return errors.Join(os.Mkdir(d+"/other", 0o755), os.Symlink("../sub", d+"/other/link"))
			},
			path: "other/link/../sub/file",
		},
		"a loop": {
			spoil: func(d string) error { return os.Symlink("loop", d+"/loop") }, path: "loop", want: "too many levels of symbolic links",
		},
		"nothing there": {path: "sub/none", want: "%d/sub/none: no such file or directory"},
		"no folder":     {path: "sub/file/x", want: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && !root {
				t.Skip("needs root, to be another user")
			}
			dir := place(t)
			if c.spoil != nil {
				must(t, c.spoil(dir))
			}
			got, err := trust.Path(dir + "/" + c.path)
			want := strings.ReplaceAll(c.want, "%d", dir)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if err == nil && got != dir+"/sub/file" {
				t.Errorf("resolved to %s", got)
			}
			t.Chdir(dir)
			if _, relative := trust.Path(c.path); (relative == nil) != (err == nil) {
				t.Errorf("from its folder: %v, by the whole path: %v", relative, err)
			}
		})
	}
}

func TestPathThatIsNotThere(t *testing.T) {
	if _, err := trust.Path(place(t) + "/none/x"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, trust.ErrStranger) {
		t.Errorf("%v is not fs.ErrNotExist alone", err)
	}
}

// TestSocketFolder is stricter than a path: the names of sockets in it must not be taken by others either.
func TestSocketFolder(t *testing.T) {
	dir := place(t)
	if err := trust.SocketFolder(dir + "/sub"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"/tmp": "may be changed by other users (mode 0777)", dir + "/sub/file": "is not a folder", dir + "/none": "no such file",
	} {
		if err := trust.SocketFolder(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	must(t, os.Chmod(dir, 0o777))
	err := trust.SocketFolder(dir + "/sub")
	if !errors.Is(err, trust.ErrStranger) || !strings.Contains(err.Error(), "have the socket in a folder of your own (mode 0700)") {
		t.Errorf("below an open folder: %v", err)
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestDial connects to this process, and to nothing that others could have put there.
func TestDial(t *testing.T) {
	dir := place(t)
	listen(t, dir+"/sub/s")
	must(t, os.Chmod(dir+"/sub/s", 0o777)) // who may connect is another question
	must(t, os.Symlink("sub", dir+"/link"))
	for _, path := range []string{dir + "/sub/s", dir + "/link/s"} {
		socket, err := trust.Dial(t.Context(), path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		who, err := trust.Peer(socket)
		if err != nil || int(who.PID) != os.Getpid() || !who.Trusted() {
			t.Errorf("%s: %s, %v", path, who, err)
		}
		_ = socket.Close()
	}
	listen(t, "@weir-trust-test")
	for path, want := range map[string]string{
		"@weir-trust-test": "abstract sockets, which anybody may make, are not used", "": "no path of a socket", "\x00x": "no path of a socket",
		dir + "/sub/none": "no such file", dir + "/sub/file": "connection refused",
	} {
		if socket, err := trust.Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, trust.ErrStranger) {
			t.Errorf("%q: %v, %v; want %q", path, socket, err, want)
		}
	}
	must(t, os.Chmod(dir+"/sub", 0o777))
	if _, err := trust.Dial(t.Context(), dir+"/link/s"); !errors.Is(err, trust.ErrStranger) || !strings.Contains(err.Error(), "chmod go-w "+dir+"/sub; have the socket") {
		t.Errorf("in an open folder: %v", err)
	}
}

// TestDialLongPath has a link shorten a path that no socket could have.
func TestDialLongPath(t *testing.T) {
	dir := place(t)
	long := dir + "/" + strings.Repeat("long", 30)
	must(t, os.Mkdir(long, 0o755), os.Symlink(long, dir+"/l"))
	listen(t, dir+"/l/s")
	socket, err := trust.Dial(t.Context(), filepath.Join(dir, "l/s"))
	must(t, err)
	_ = socket.Close()
}

// TestPeerOfAnotherUser has a socket in a folder of this user served by another, as when its descriptor was handed on.
func TestPeerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	dir := place(t)
	must(t, os.Chmod(dir, 0o755), os.Chmod(dir+"/sub", 0o777|os.ModeSticky))
	as(t, stranger, func() { listen(t, dir+"/sub/s") })
	_, err := trust.Dial(t.Context(), dir+"/sub/s")
	if !errors.Is(err, trust.ErrStranger) || !strings.Contains(err.Error(), "sub/s belongs to user 65534") {
		t.Errorf("their file: %v", err)
	}
	must(t, os.Chown(dir+"/sub/s", 0, 0))
	_, err = trust.Dial(t.Context(), dir+"/sub/s")
	if !errors.Is(err, trust.ErrStranger) || !strings.Contains(err.Error(), "of user 65534 listens there, neither you (0) nor root") {
		t.Errorf("their process: %v", err)
	}
}

// as runs a function as another user, of root's rights.
func as(t *testing.T, uid int, do func()) {
	t.Helper()
	must(t, syscall.Seteuid(uid))
	defer func() { must(t, syscall.Seteuid(0)) }()
	do()
}
