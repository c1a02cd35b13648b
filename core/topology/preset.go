package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// presets are machines that people name rather than paste.
var presets = map[string]func() Graph{
	"8xPCIe":     pcie8,
	"8xNVSwitch": nvswitch8,
}

// Presets lists the names that Preset knows, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset is a well-known topology by name.
func Preset(name string) (Graph, error) {
	make, ok := presets[name]
	if !ok {
		return Graph{}, fmt.Errorf("unknown topology %q, want one of %v", name, Presets())
	}
	return make(), nil
}

// pcie8 is the machine that Weir was started for: eight RTX PRO 6000 (compute 12.0) on PCIe Gen5, four to a NUMA node,
// no switch and no NVLink. P2P is left unknown: it differs between such machines.
func pcie8() Graph {
	g := Uniform(8, Link{Class: NODE}, func(i int) Device {
		return Device{Index: i, Name: "NVIDIA RTX PRO 6000 Blackwell", Capability: "12.0", NUMA: strconv.Itoa(i / 4)}
	})
	for a := range 8 {
		for b := range 8 {
			if a/4 != b/4 {
				g.Links[a][b] = Link{Class: SYS}
			}
		}
	}
	g.Multicast = No
	return g
}

// nvswitch8 is an HGX H100: eight GPUs with 18 NVLinks each into NVSwitch.
func nvswitch8() Graph {
	g := Uniform(8, Link{Class: NVLink, Count: 18}, func(i int) Device {
		return Device{Index: i, Name: "NVIDIA H100 80GB HBM3", Capability: "9.0", NUMA: strconv.Itoa(i / 4)}
	})
	g.P2P = P2PReported
	g.Multicast = Yes
	return g
}
