// Package files opens and reads the files that a user names, without waiting for what may never come and without reading for ever.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a file to read it. It takes regular files, the null device, and what this process was handed open: /dev/stdin and
// /dev/fd/N, which is what a shell makes of <(command). It refuses folders, devices, sockets and named pipes, which may have nobody who
// writes, or no end. Errors name the file.
func Open(path string) (*os.File, error) {
	if fd, ok := handed(path); ok {
		return duplicate(path, fd)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		if errors.Is(err, unix.ENXIO) {
			return nil, refused("open", path, "a socket or a device that is not there")
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = readable(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// handed is the number of the descriptor that a path names as one of this process.
func handed(path string) (fd int, ok bool) {
	if path == "/dev/stdin" {
		return 0, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/", "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/"} {
		if number, found := strings.CutPrefix(path, dir); found {
			n, err := strconv.ParseUint(number, 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

// duplicate takes a descriptor as it is: a pipe or socket cannot be opened again, and its mode is not only ours to change.
func duplicate(path string, fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(n), path)
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(refused("open", path, "a directory"), f.Close())
	}
	return f, nil
}

func readable(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular(), isNull(info):
		return nil
	case mode.IsDir():
		return refused("open", path, "a directory")
	case mode&fs.ModeNamedPipe != 0:
		return refused("open", path, "a named pipe; hand it over with < as /dev/stdin, or as <(cat "+path+")")
	case mode&fs.ModeDevice != 0:
		return refused("open", path, "a device")
	}
	return refused("open", path, "no regular file")
}

func isNull(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(null, info)
}

// refused is what is at the path instead of a file.
func refused(op, path, what string) error {
	return &fs.PathError{Op: op, Path: path, Err: fmt.Errorf("this is %s; name a file", what)}
}
