package exec

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// arrange sets what the library reads from the environment before its first communicator. What the user has set stays.
func arrange(p *plan.Library, g collective.Group, rank int) error {
	if _, _, shared := g.SharedDevice(); !shared {
		return nil
	}
	if p.Variant == "rccl" || p.Variant == "mscclpp" {
		return fault(backend.InitFailed, "several ranks on one device: only NCCL can be told to take them")
	}
	values := map[string]string{
		// A host of its own for every rank: before 2.30 NCCL refuses two ranks of one host on one device. Between hosts it
		// uses the network, of which every machine has this much.
		"NCCL_HOSTID": fmt.Sprintf("weir-%d-%d", os.Getpid(), rank), "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
	}
	if backend.CompareVersions(p.Version, nccl.MultiRankVersion) >= 0 {
		values = map[string]string{"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
	}
	for name, value := range values {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil { // the C library's too
			return fault(backend.InitFailed, "%w", err)
		}
	}
	return nil
}

var messages struct {
	once sync.Once
	mu   sync.Mutex
	take func(text string)
}

// Messages has what NCCL writes of its own accord, warnings if the user has not asked for more, go to take, a line at a
// time. It must come before NCCL is first used in the process; a user who has said where messages go keeps that. The last
// caller gets them.
func Messages(take func(text string)) error {
	messages.mu.Lock()
	messages.take = take
	messages.mu.Unlock()
	var err error
	messages.once.Do(func() { err = redirect() })
	return err
}

func redirect() error {
	if os.Getenv("NCCL_DEBUG_FILE") != "" {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("a pipe for NCCL's messages: %w", err)
	}
	if os.Getenv("NCCL_DEBUG") == "" {
		err = os.Setenv("NCCL_DEBUG", "WARN")
	}
	if err == nil {
		err = os.Setenv("NCCL_DEBUG_FILE", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.Fd()))
	}
	if err != nil {
		return fmt.Errorf("NCCL's messages: %w", err)
	}
	go func() {
		defer w.Close() // it is kept open as long as somebody reads
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if text := strings.TrimSpace(lines.Text()); text != "" {
				messages.mu.Lock()
				take := messages.take
				messages.mu.Unlock()
				take(text)
			}
		}
	}()
	return nil
}
