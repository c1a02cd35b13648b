package rank

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// TestNUMANode: a process is on a node if all cores that it may use are.
func TestNUMANode(t *testing.T) {
	machine := fstest.MapFS{ // nodes 0 and 10, four cores each
		"devices/system/node/node0/cpulist":   {Data: []byte("0-1,4-5\n")},
		"devices/system/node/node10/cpulist":  {Data: []byte("2-3,6-7\n")},
		"devices/system/node/node10/cpumap":   {},
		"devices/system/node/node10/distance": {},
	}
	for core := range 8 {
		node := map[bool]int{false: 0, true: 10}[core&2 != 0]
		machine[fmt.Sprintf("devices/system/node/node%d/cpu%d/online", node, core)] = &fstest.MapFile{}
	}
	for want, sets := range map[string][][]int{
		"0":  {{0}, {0, 1, 4, 5}, {5}},
		"10": {{2}, {7, 3}, {2, 3, 6, 7}},
		"":   {{}, {0, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, {8}, {2, 9}},
	} {
		for _, cores := range sets {
			var set unix.CPUSet
			for _, c := range cores {
				set.Set(c)
			}
			if got := numaNode(machine, set); got != want {
				t.Errorf("cores %v: node %q, want %q", cores, got, want)
			}
		}
	}
	var one unix.CPUSet
	one.Set(0)
	if got := numaNode(fstest.MapFS{}, one); got != "" {
		t.Errorf("node %q of a system that does not say", got)
	}
}

// TestOwnNUMANode: on a machine with one node, that is where this process is.
func TestOwnNUMANode(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0/cpu0"); err != nil {
		t.Skip("this system does not say which node a core is of")
	}
	if _, err := os.Stat("/sys/devices/system/node/node1"); err == nil {
		t.Skip("this machine has several NUMA nodes")
	}
	if got := numaNode(os.DirFS("/sys"), ownCores()); got != "0" {
		t.Errorf("node %q, want 0", got)
	}
}
