package rank

import (
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// numaNode is the NUMA node of all the cores, as Linux numbers it; "" if they are of several nodes, or it cannot be found
// out. sysfs is what is mounted at /sys.
func numaNode(sysfs fs.FS, cores unix.CPUSet) string {
	entries, err := fs.Glob(sysfs, "devices/system/node/node*/cpu[0-9]*")
	if err != nil {
		return ""
	}
	on := map[int]int{} // how many of the cores, by node
	for _, name := range entries {
		var node, core int
		if n, err := fmt.Sscanf(name, "devices/system/node/node%d/cpu%d", &node, &core); err == nil && n == 2 && cores.IsSet(core) {
			on[node]++
		}
	}
	for node, n := range on {
		if n == cores.Count() {
			return fmt.Sprint(node)
		}
	}
	return ""
}

// ownCores are those that this process may use.
func ownCores() (cores unix.CPUSet) {
	_ = unix.SchedGetaffinity(0, &cores) // none, then, which are on no node
	return cores
}
