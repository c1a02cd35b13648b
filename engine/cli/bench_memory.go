package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/weir-project/weir/engine/bench"
)

func (r *benchRank) reportMemory(ctx context.Context) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	m := readMemory(string(status), string(maps))
	m.Rank, m.Buffers = r.group.Rank(), int64(len(r.in)+len(r.dst))
	if r.gpu != nil {
		m.Buffers = int64(len(r.gpu.host))
	}
	all, err := exchange(ctx, r.group, m)
	if err != nil {
		return err
	}
	return r.tell(benchEvent{Memory: all})
}

// readMemory reads the kernel's account of a process: its status, and the shared memory among its mappings.
func readMemory(status, maps string) bench.Memory {
	var m bench.Memory
	for _, f := range []struct {
		key string
		dst *int64
	}{{"VmHWM:", &m.Peak}, {"VmRSS:", &m.Resident}, {"RssAnon:", &m.Private}} {
		if _, rest, ok := strings.Cut(status, f.key); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				kib, _ := strconv.ParseInt(words[0], 10, 64) // the kernel's own number
				*f.dst = kib << 10
			}
		}
	}
	for line := range strings.Lines(maps) {
		if !strings.Contains(line, "/memfd:") {
			continue
		}
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x", &from, &to); n == 2 {
			m.Shared += to - from
		}
	}
	return m
}

// alignedBytes begins at a multiple of a page, as large allocations of any program do, and has been written to.
func alignedBytes(n int64) []byte {
	const page = 4096
	b := make([]byte, n+page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	b = b[skip : skip+uintptr(n)]
	fill(b, 1)
	return b
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}
