package pluginhost

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// trusted refuses a file that somebody else than this user and root could change or replace: by writing to it, or to a folder on the
// way to it. path is absolute, without symbolic links. In a folder with the sticky bit, such as /tmp, nobody replaces what
// belongs to others.
func trusted(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if err := onlyOurs(at, info); err != nil {
			if at != path {
				return fmt.Errorf("others could replace %s: %w", path, err)
			}
			return err
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func onlyOurs(path string, info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is not known", path)
	}
	me := uint32(os.Geteuid())
	if stat.Uid != me && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, neither you (%d) nor root: chown it, or copy the plugin into a folder of your own", path, stat.Uid, me)
	}
	mode := info.Mode()
	others := mode.Perm() & 0o022
	if me != 0 && stat.Uid == me && stat.Gid == me { // the user's private group, as useradd makes it
		others &= 0o002
	}
	if others != 0 && !(mode.IsDir() && mode&os.ModeSticky != 0) {
		return fmt.Errorf("%s may be changed by other users (mode %#o): chmod go-w %s", path, mode.Perm(), path)
	}
	return nil
}
