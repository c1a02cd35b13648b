// Package trust says whether another user of the host could be behind a file, a folder or a socket.
package trust

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Path refuses a file or folder that somebody else than this user and root could change or replace: by writing to it, to a folder
// on the way to it, or to one that holds a symbolic link on that way. In a folder with the sticky bit, such as /tmp, nobody
// replaces what belongs to others. It returns the path absolute and without links. A path that does not exist is fs.ErrNotExist.
func Path(path string) (string, error) {
	w := walker{path: path, at: "/"}
	err := w.walk()
	if refused, ok := err.(*Refusal); ok && len(w.rest) > 0 {
		refused.Of = path
	}
	return w.at, err
}

// Folder is Path of a folder in which nobody else may make files either, as in /tmp.
func Folder(dir string) (string, error) {
	resolved, err := Path(dir)
	if err != nil {
		return resolved, err
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return resolved, err
	}
	if !info.IsDir() {
		return resolved, fmt.Errorf("%s is not a folder", resolved)
	}
	return resolved, refuse(resolved, info, false)
}

// maxLinks is how many symbolic links a path may lead through, as in the kernel.
const maxLinks = 40

// walker goes along a path as the kernel does and looks at everything that it meets.
type walker struct {
	path  string
	at    string   // how far it has come, without links
	rest  []string // what remains of the way
	links int
}

func (w *walker) walk() error {
	full := w.path
	if !filepath.IsAbs(full) {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		full = here + "/" + full
	}
	w.add(full)
	if err := w.look(w.at); err != nil {
		return err
	}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		if name == ".." { // not before: what it leaves may be behind a link
			w.at = filepath.Dir(w.at)
		} else if err := w.look(filepath.Join(w.at, name)); err != nil {
			return err
		}
	}
	return nil
}

// add puts a path before what remains.
func (w *walker) add(path string) {
	parts := slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
	w.rest = append(parts, w.rest...)
	if filepath.IsAbs(path) {
		w.at = "/"
	}
}

// look goes to the next file, or where the link leads that it is.
func (w *walker) look(next string) error {
	info, err := os.Lstat(next)
	if err != nil {
		return err
	}
	if err := refuse(next, info, true); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		w.at = next
		return nil
	}
	if w.links++; w.links > maxLinks {
		return &os.PathError{Op: "follow", Path: w.path, Err: syscall.ELOOP}
	}
	to, err := os.Readlink(next)
	if err != nil {
		return err
	}
	w.add(to)
	return nil
}
