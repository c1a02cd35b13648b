package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shortDir is a folder with a short path.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func environment(kv ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == name {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestFolder(t *testing.T) {
	base := shortDir(t)
	f, err := NewFolder(environment("XDG_RUNTIME_DIR", base))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode() != os.ModeDir|0o700 || filepath.Dir(f.Path) != base || len(f.Path) > maxFolder {
		t.Errorf("folder %s: %v, %v; want one of mode 0700 in %s", f.Path, info.Mode(), err, base)
	}
	if lock, err := lockFolder(f.Path, os.O_RDWR); err == nil {
		_ = lock.Close()
		t.Error("the folder can be locked twice")
	}
	if err := os.WriteFile(filepath.Join(f.Path, "agent.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := NewFolder(environment("XDG_RUNTIME_DIR", base))
	if err != nil {
		t.Fatal(err)
	}
	if g.Path == f.Path {
		t.Error("two engines have one folder")
	}
	for _, f := range []*Folder{f, g} {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFolderPlace(t *testing.T) {
	base, other := shortDir(t), shortDir(t)
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(other, strings.Repeat("long", 20))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ runtime, tmp, want string }{
		"the runtime folder first":  {base, other, base},
		"no runtime folder":         {"", base, base},
		"missing":                   {base + "/missing", base, base},
		"one that cannot be used":   {"/proc", base, base},
		"a file":                    {file, base, base},
		"too long for sockets":      {long, base, base},
		"neither":                   {"", "", "/tmp"},
		"neither that can be used":  {long, file, "/tmp"},
		"the same in both variable": {base, base, base},
	} {
		f, err := NewFolder(environment("XDG_RUNTIME_DIR", c.runtime, "TMPDIR", c.tmp))
		if err != nil {
			t.Errorf("%s: %s", name, err)
			continue
		}
		if filepath.Dir(f.Path) != c.want {
			t.Errorf("%s: folder %s, want one in %s", name, f.Path, c.want)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// TestFolderSweep makes a folder where others are, of which it may remove one.
func TestFolderSweep(t *testing.T) {
	base := shortDir(t)
	old := time.Now().Add(-2 * youngFolder)
	at := func(name string) string { return filepath.Join(base, name) }
	folder := func(name string, mode os.FileMode, withLock bool) {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"agent.sock", lockName}[:1+map[bool]int{true: 1}[withLock]] {
			if err := os.WriteFile(filepath.Join(at(name), file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	folder("weir-stale", 0o700, true)
	folder("weir-young", 0o700, true)
	folder("weir-locked", 0o700, true)
	folder("weir-without-lock", 0o700, false)
	folder("weir-open", 0o755, true) // somebody's, as the mode shows
	folder("other", 0o700, true)
	if err := os.WriteFile(at("weir-file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("other"), at("weir-link")); err != nil {
		t.Fatal(err)
	}
	kept := []string{"weir-young", "weir-locked", "weir-without-lock", "weir-open", "other/lock", "weir-file", "weir-link"}
	if os.Geteuid() == 0 { // only root could take another user's
		folder("weir-foreign", 0o700, true)
		if err := os.Chown(at("weir-foreign"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, "weir-foreign/lock")
	}
	lock, err := lockFolder(at("weir-locked"), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	all, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() != "weir-young" && e.Name() != "weir-link" {
			if err := os.Chtimes(at(e.Name()), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := NewFolder(environment("TMPDIR", base))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Remove()
	if _, err := os.Stat(at("weir-stale")); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead engine is still there: %v", err)
	}
	for _, name := range kept {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Errorf("removed what is not a dead engine's: %s", err)
		}
	}
}
