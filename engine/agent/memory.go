package agent

import (
	"fmt"
	"os"

	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/sdk/proto/sealed"
)

// newShared makes memory for ranks to share, if the machine has room for it: a reservation that does not fit may get a process
// killed rather than fail.
func newShared(name string, size int64) (*os.File, error) {
	if err := limits.Room(size); err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	f, err := sealed.New(name, size)
	return f, limits.Explain(err)
}
