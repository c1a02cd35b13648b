package launch

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Runs are the folders of this user's engines that live, the oldest first.
func Runs(getenv func(string) string) []string {
	var found []string
	for _, base := range bases(getenv) {
		paths, _ := filepath.Glob(filepath.Join(base.path, folderPrefix+"*"))
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && private(info) && locked(path) && !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return made(a).Compare(made(b)) })
	return found
}

// made is when a folder's lock was made.
func made(path string) time.Time {
	info, err := os.Stat(filepath.Join(path, lockName))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// locked reports whether a folder's engine lives.
func locked(path string) bool {
	f, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil // let go with the file
}
