package pluginhost_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/engine/pluginhost"
)

// copyOf puts this test binary, as a plugin, into a folder.
func copyOf(t *testing.T, dir, name string, more ...byte) (path string, sum string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, more...)
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	of := sha256.Sum256(text)
	return path, hex.EncodeToString(of[:])
}

// TestPluginThatOthersCouldChange is refused, with what to do.
func TestPluginThatOthersCouldChange(t *testing.T) {
	const stranger = 65534
	for name, c := range map[string]struct {
		spoil func(dir, sub, file string) error
		want  string // %d for dir, %s for sub, %f for file; "" if it is fine
		root  bool
	}{
		"fine":            {func(string, string, string) error { return nil }, "", false},
		"file, group":     {func(_, _, file string) error { return os.Chmod(file, 0o775) }, "%f may be changed by other users (mode 0775): chmod go-w %f", true},
		"file, others":    {func(_, _, file string) error { return os.Chmod(file, 0o757) }, "%f may be changed by other users (mode 0757): chmod go-w %f", false},
		"folder, group":   {func(_, sub, _ string) error { return os.Chmod(sub, 0o775) }, "others could replace %f: %s may be changed by other users (mode 0775): chmod go-w %s", true},
		"folder, others":  {func(_, sub, _ string) error { return os.Chmod(sub, 0o757) }, "others could replace %f: %s may be changed by other users (mode 0757): chmod go-w %s", false},
		"folder above":    {func(dir, _, _ string) error { return os.Chmod(dir, 0o777) }, "others could replace %f: %d may be changed by other users (mode 0777): chmod go-w %d", false},
		"sticky folder":   {func(dir, _, _ string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "", false},
		"file, stranger":  {func(_, _, file string) error { return os.Chown(file, stranger, -1) }, "%f belongs to user 65534, neither you (0) nor root: chown it", true},
		"folder, strange": {func(_, sub, _ string) error { return os.Chown(sub, stranger, -1) }, "others could replace %f: %s belongs to user 65534, neither you (0) nor root: chown it", true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("needs root, to be another user than the file's")
			}
			dir, err := os.MkdirTemp("", "weir")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			sub := filepath.Join(dir, "plugins")
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			file, _ := copyOf(t, sub, "flat")
			if err := c.spoil(dir, sub, file); err != nil {
				t.Fatal(err)
			}
			s := spec(t, "flat", "good")
			s.Path = file
			opts, _ := options(t)
			h, err := pluginhost.Start(t.Context(), []pluginhost.Spec{s}, opts)
			if err == nil {
				h.Close()
			}
			want := strings.NewReplacer("%d", dir, "%s", sub, "%f", file).Replace(c.want)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestSymlinkSwap has a link lead to another file again and again while plugins are started through it: what runs has the checksum that
// is configured, or nothing does.
func TestSymlinkSwap(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	good, sum := copyOf(t, dir, "good")
	evil := filepath.Join(dir, "evil")
	mark := filepath.Join(dir, "mark")
	if err := os.WriteFile(evil, fmt.Appendf(nil, "#!/bin/sh\ntouch %s\n", mark), 0o755); err != nil {
		t.Fatal(err)
	}
	link, next := filepath.Join(dir, "link"), filepath.Join(dir, "next")
	swap := func(to string) {
		if err := os.Symlink(to, next); err != nil {
			t.Error(err)
		}
		if err := os.Rename(next, link); err != nil {
			t.Error(err)
		}
	}
	swap(good)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			for _, to := range []string{evil, good} {
				swap(to)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	opts, _ := options(t)
	s := spec(t, "flat", "good")
	s.Path, s.SHA256 = link, sum
	started := 0
	for range 40 {
		h, err := pluginhost.Start(t.Context(), []pluginhost.Spec{s}, opts)
		switch {
		case err != nil && !strings.Contains(err.Error(), "use the right file or correct the checksum") && !strings.Contains(err.Error(), "replaced while it was looked at"):
			t.Error(err)
		case err == nil:
			started++
			h.Close()
		}
	}
	close(stop)
	swapping.Wait()
	if _, err := os.Stat(mark); err == nil {
		t.Error("a file with another checksum was run")
	}
	t.Logf("%d of 40 started", started)
}

// TestWhatRunsIsWhatWasChecked: the process is of the file itself, and is called as the file is.
func TestWhatRunsIsWhatWasChecked(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, sum := copyOf(t, dir, "flat")
	opts, _ := options(t)
	h := start(t, opts, func() pluginhost.Spec {
		s := spec(t, "flat", "good")
		s.Path, s.SHA256 = file, sum
		return s
	}())
	st := h.Plugins()[0]
	exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", st.PID))
	if err != nil {
		t.Fatal(err)
	}
	checked, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if exe.Sys().(*syscall.Stat_t).Ino != checked.Sys().(*syscall.Stat_t).Ino {
		t.Error("another file runs than the one that was checked")
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", st.PID)); err != nil || strings.TrimSpace(string(comm)) != "flat" {
		t.Errorf("the process is called %q (%v), want flat", comm, err)
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", st.PID)); err != nil || !strings.HasPrefix(string(line), file+"\x00") {
		t.Errorf("its command line is %q (%v)", line, err)
	}
}
