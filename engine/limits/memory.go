package limits

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// small is what is taken without a look.
const small = 1 << 20

// Room says why there is no room for so many bytes of memory. To take them all the same would have the kernel end a process, this one
// perhaps. What cannot be found out is no reason.
func Room(bytes int64) error {
	if bytes <= small {
		return nil
	}
	return room(os.DirFS("/"), bytes)
}

func room(root fs.FS, bytes int64) error {
	if left := available(root); bytes > left {
		return fmt.Errorf("%d bytes of memory are needed, and the machine has %d left", bytes, left)
	}
	for _, g := range groups(root) {
		if left := g.left(root); bytes > left {
			return fmt.Errorf("%d bytes of memory are needed, and the control group %s (the container's limit) has %d left", bytes, g.path, max(left, 0))
		}
	}
	return nil
}

// available is what the machine could give without swapping.
func available(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return math.MaxInt64
}

// cgroup is a folder with a limit on memory, and how its files are called.
type cgroup struct{ path, limit, used, cache string }

// groups are the control groups that this process is in, from the innermost on, of both versions. In a container the path that the
// kernel tells may be that of the host, and only its root be there.
func groups(root fs.FS) []cgroup {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	var all []cgroup
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		g := cgroup{limit: "memory.max", used: "memory.current", cache: "inactive_file "}
		base := "sys/fs/cgroup"
		switch controllers := "," + parts[1] + ","; {
		case parts[0] == "0":
		case strings.Contains(controllers, ",memory,"):
			g = cgroup{limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cache: "total_inactive_file "}
			base += "/memory"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			g.path = path.Join(base, dir)
			all = append(all, g)
			if dir == "/" {
				break
			}
		}
	}
	return all
}

// left is what may still be used; all there is if there is no limit.
func (g cgroup) left(root fs.FS) int64 {
	limit, ok := number(root, path.Join(g.path, g.limit))
	used, ok2 := number(root, path.Join(g.path, g.used))
	if !ok || !ok2 {
		return math.MaxInt64
	}
	text, _ := fs.ReadFile(root, path.Join(g.path, "memory.stat"))
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(line, g.cache); found {
			cache, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			used -= cache // given back when it is needed
		}
	}
	return limit - used
}

func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
	return n, err == nil
}
