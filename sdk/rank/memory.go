package rank

import (
	"os"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/sealed"
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

// mapAll maps so many bytes of the file, which must have them.
func (f sharedFile) mapAll(size int64) ([]byte, error) {
	return sealed.Map(f.file, size, unix.PROT_READ|unix.PROT_WRITE)
}
