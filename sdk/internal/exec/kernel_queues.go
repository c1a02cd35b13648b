package exec

import (
	"os"
	"strconv"

	"github.com/weir-project/weir/core/backend"
)

// What the driver gives streams to a device: so many queues, which CUDA_DEVICE_MAX_CONNECTIONS sets when CUDA starts.
const (
	envConnections     = "CUDA_DEVICE_MAX_CONNECTIONS"
	defaultConnections = 8
	mostConnections    = 32
	streamsOfRank      = 2 // for its calls, and for set-up and self-tests
)

// checkConnections refuses more ranks of this process on one GPU than streams can have a queue of their own. Streams that share one wait
// for each other: behind a kernel that waits for a peer, and another call behind that, the peer's may never begin.
func checkConnections(ranks int) error {
	have := defaultConnections
	if n, err := strconv.Atoi(os.Getenv(envConnections)); err == nil && n > 0 {
		have = min(n, mostConnections)
	}
	need := streamsOfRank * ranks
	switch {
	case ranks < 2 || need <= have:
		return nil
	case need > mostConnections:
		return fault(backend.InitFailed, "%d ranks of one process are on one GPU, which has queues for %d: give ranks a process of their own", ranks, mostConnections/streamsOfRank)
	}
	return fault(backend.InitFailed, "%d ranks of one process are on one GPU, which has queues for %d: set %s to %d or more (it is %d) before CUDA starts, or give ranks a process of their own",
		ranks, have/streamsOfRank, envConnections, need, have)
}
