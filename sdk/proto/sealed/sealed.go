// Package sealed makes and maps memory that processes share: files without a name whose size nobody can change.
package sealed

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// seals keep the file as long as it was when it was handed out, so that nobody's mapping can be cut off.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// New makes memory of some bytes. It is gone with its last user. Its pages are reserved, so that touching them later cannot
// fail. The name is for people who look at /proc.
func New(name string, bytes int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	err = unix.Ftruncate(fd, bytes)
	if err == nil {
		for err = unix.EINTR; err == unix.EINTR; { // signals, such as those of children that end, interrupt it
			err = unix.Fallocate(fd, 0, 0, bytes)
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%d bytes of shared memory: %w", bytes, err), f.Close())
	}
	return f, nil
}

// Map maps the first bytes of a file that somebody else made, with the protection (unix.PROT_READ and so on). It refuses one
// that is shorter or not sealed, whatever it is. The file may be closed afterwards.
func Map(f *os.File, bytes int64, protection int) ([]byte, error) {
	have, err := size(f)
	if err != nil {
		return nil, err
	}
	if bytes < 1 || bytes > have {
		return nil, fmt.Errorf("shared memory of %d bytes, want %d", have, bytes)
	}
	return mapped(f, bytes, protection)
}

// MapAll is Map of all that there is.
func MapAll(f *os.File, protection int) ([]byte, error) {
	have, err := size(f)
	if err != nil {
		return nil, err
	}
	if have < 1 || have > math.MaxInt {
		return nil, fmt.Errorf("shared memory of %d bytes", have)
	}
	return mapped(f, have, protection)
}

// size is how long a file is for good.
func size(f *os.File) (int64, error) {
	got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return 0, errors.New("shared memory is not sealed")
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("shared memory: %w", err)
	}
	return info.Size(), nil
}

func mapped(f *os.File, bytes int64, protection int) ([]byte, error) {
	memory, err := unix.Mmap(int(f.Fd()), 0, int(bytes), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", bytes, err)
	}
	return memory, nil
}
