package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"
)

const (
	folderPrefix = "weir-"
	lockName     = "lock"

	// maxFolder leaves room for the names of sockets: the path of a Unix socket has at most 107 bytes.
	maxFolder = 70

	// youngFolder is the age below which a folder is never swept: its owner may not have locked it yet.
	youngFolder = time.Minute
)

// Folder is the private folder of one run: sockets and nothing else. It is locked as long as its engine lives.
type Folder struct {
	Path string
	lock *os.File
}

// NewFolder makes a folder that only this user may enter, and removes those that engines of this user left behind when
// they were killed.
func NewFolder(getenv func(string) string) (*Folder, error) {
	var path string
	var err error
	for _, base := range bases(getenv) {
		if path, err = os.MkdirTemp(base, folderPrefix); err == nil { // XDG_RUNTIME_DIR may be another user's, after su
			sweep(base)
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("private folder for sockets: %w (set TMPDIR to a folder that you may write to)", err)
	}
	lock, err := lockFolder(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("private folder for sockets: %w", err)
	}
	return &Folder{Path: path, lock: lock}, nil
}

// bases are where the folder may be, the best place first.
func bases(getenv func(string) string) []string {
	return lo.Uniq(lo.Filter([]string{getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"}, func(base string, _ int) bool {
		return base != "" && len(base) <= maxFolder-20
	}))
}

// Remove deletes the folder.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.Path)
	_ = f.lock.Close()
	return err
}

func lockFolder(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// sweep removes folders whose engine is gone. It is a courtesy: what cannot be removed stays.
func sweep(base string) {
	old, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, path := range old {
		info, err := os.Lstat(path)
		if err != nil || !private(info) || time.Since(info.ModTime()) < youngFolder {
			continue
		}
		lock, err := lockFolder(path, os.O_RDWR)
		if err != nil {
			continue // in use, another user's, or not ours at all
		}
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}
}

// private reports whether a file is a folder as NewFolder makes it: this user's and closed to others. Root could lock,
// and remove, anybody's.
func private(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode() == os.ModeDir|0o700
}
