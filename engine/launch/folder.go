package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/trust"
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
		if err = base.check(); errors.Is(err, trust.ErrStranger) {
			return nil, fmt.Errorf("private folder for sockets: %w", err)
		}
		if err == nil {
			path, err = os.MkdirTemp(base.path, folderPrefix)
		}
		if err == nil {
			sweep(base.path)
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

// base is a folder in which private folders may be.
type base struct{ variable, path string }

const runtimeDir = "XDG_RUNTIME_DIR"

// bases are where the folder may be, the best place first.
func bases(getenv func(string) string) []base {
	all := []base{{runtimeDir, getenv(runtimeDir)}, {"TMPDIR", getenv("TMPDIR")}, {"the system's folder", "/tmp"}}
	return lo.UniqBy(lo.Filter(all, func(b base, _ int) bool {
		return b.path != "" && len(b.path) <= maxFolder-20
	}), func(b base) string { return b.path })
}

// errPassedOver is that a folder is another user's, as XDG_RUNTIME_DIR is after su.
var errPassedOver = errors.New("it is another user's")

// check refuses a folder in which another user could take the place of ours. The error is trust.ErrStranger if that must be mended.
func (b base) check() error {
	_, err := trust.Path(b.path)
	refused := (*trust.Refusal)(nil)
	switch {
	case !errors.As(err, &refused):
		return err
	case b.variable == runtimeDir && refused.Foreign && refused.Of == "":
		return errPassedOver
	}
	return fmt.Errorf("%s: %w (chmod +t does for a folder that many use), or set TMPDIR to a folder of your own", b.variable, err)
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
