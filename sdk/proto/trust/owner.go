package trust

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrStranger is what the errors are (errors.Is) that say that another user is, or could be, behind something.
var ErrStranger = errors.New("another user could be behind it")

// Refusal is that another user could change a file or a folder.
type Refusal struct {
	Path    string // what could be changed
	Of      string // what could be replaced by that; "" if it is Path
	Mode    os.FileMode
	Owner   uint32
	Foreign bool // it belongs to the other user

	detail string // why a group may not write to it, which this user alone may seem to be in
}

func (e *Refusal) Error() string {
	s := ""
	if e.Of != "" {
		s = fmt.Sprintf("others could replace %s: ", e.Of)
	}
	if e.Foreign {
		return s + fmt.Sprintf("%s belongs to %s, neither you (%d) nor root", e.Path, user(e.Owner), os.Geteuid())
	}
	return s + fmt.Sprintf("%s may be changed by other users (mode %#o%s): chmod go-w %s", e.Path, e.Mode.Perm(), e.detail, e.Path)
}

// Is makes it an ErrStranger.
func (e *Refusal) Is(target error) bool { return target == ErrStranger }

// refuse is a *Refusal, or nil, for one file. A folder with the sticky bit passes if sticky says so.
func refuse(path string, info os.FileInfo, sticky bool) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner is not known", path)
	}
	me, mode := uint32(os.Geteuid()), info.Mode()
	r := &Refusal{Path: path, Mode: mode, Owner: stat.Uid}
	if stat.Uid != me && stat.Uid != 0 {
		r.Foreign = true
		return r
	}
	others := mode.Perm() & 0o022
	if others == 0 || mode.IsDir() && mode&os.ModeSticky != 0 && sticky {
		return nil // what an access-control list allows is within the group's bits
	}
	if mode&(os.ModeSymlink|os.ModeSocket) != 0 {
		return nil // nothing is written to a link, and who may write to a socket may connect
	}
	if others == 0o020 && me != 0 && stat.Uid == me && stat.Gid == me {
		why := sharedGroup(path, me)
		if why == "" {
			return nil
		}
		r.detail = ", " + why
	}
	return r
}
