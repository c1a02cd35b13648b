package rank

import (
	"fmt"
	"os"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// sharedFile is memory that the agent shares with the ranks of a group.
type sharedFile struct{ file *os.File }

// takeFiles claims the descriptors that a message announces.
func takeFiles(conn *rankv1.Conn, m *rankv1.ToRank) ([]sharedFile, error) {
	n := 0
	switch body := m.Body.(type) {
	case *rankv1.ToRank_GroupReady:
		n = 1
	case *rankv1.ToRank_Allocated:
		n = 1
	case *rankv1.ToRank_Prepare:
		for _, i := range body.Prepare.Instances {
			if i.Memory {
				n++
			}
			if i.Inputs {
				n++
			}
		}
	case *rankv1.ToRank_Connect:
		for _, i := range body.Connect.Instances {
			n += lo.Count(i.Files, true)
		}
	}
	files, err := conn.Files(n)
	if err != nil {
		return nil, err
	}
	shared := make([]sharedFile, n)
	for i, f := range files {
		shared[i] = sharedFile{f}
	}
	return shared, nil
}

func (r *reply) discard() {
	for _, f := range r.files {
		_ = f.file.Close()
	}
}

// mapAll maps the file. It insists on the seals that keep a peer from shrinking the memory under us.
func (f sharedFile) mapAll(size int64) ([]byte, error) {
	info, err := f.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	if info.Size() < size {
		return nil, fmt.Errorf("shared memory of %d bytes, want %d", info.Size(), size)
	}
	seals, err := unix.FcntlInt(f.file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&(unix.F_SEAL_SHRINK|unix.F_SEAL_GROW) != unix.F_SEAL_SHRINK|unix.F_SEAL_GROW {
		return nil, fmt.Errorf("shared memory is not sealed")
	}
	memory, err := unix.Mmap(int(f.file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return memory, nil
}
