package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Create opens a file to write it anew, or a pipe that somebody reads. One that nobody reads is refused.
func Create(path string, mode os.FileMode) (*os.File, error) { return writable(path, os.O_TRUNC, mode) }

// Append opens a file to write at its end, or a pipe that somebody reads. One that nobody reads is refused.
func Append(path string, mode os.FileMode) (*os.File, error) {
	return writable(path, os.O_APPEND, mode)
}

func writable(path string, how int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOCTTY|how, mode)
	if errors.Is(err, unix.ENXIO) {
		return nil, refused("open", path, "a pipe that nobody reads, or a socket")
	}
	return f, err
}

// Write makes a file of its content.
func Write(path string, content []byte, mode os.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
