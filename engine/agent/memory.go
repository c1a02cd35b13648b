package agent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/limits"
)

// newShared makes memory for ranks to share: it has no name, nobody can change its size, and it is gone with its last
// user. Its pages are reserved, so that touching them later cannot fail.
func newShared(name string, size int64) (*os.File, error) {
	if err := limits.Room(size); err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", limits.Explain(err))
	}
	f := os.NewFile(uintptr(fd), name)
	err = unix.Ftruncate(fd, size)
	if err == nil {
		for err = unix.EINTR; err == unix.EINTR; { // signals, such as those of children that end, interrupt it
			err = unix.Fallocate(fd, 0, 0, size)
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%d bytes of shared memory: %w", size, limits.Explain(err))
	}
	return f, nil
}

func mapShared(f *os.File, size int64) ([]byte, error) {
	memory, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return memory, nil
}
