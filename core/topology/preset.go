package topology

import (
	"fmt"
	"slices"
	"strings"
)

// PresetMachine is a machine that people name rather than paste.
type PresetMachine struct {
	Name    string
	Aliases []string // other names for it
	About   string   // what it is, in a few words
	make    func() Graph
}

// presets are sorted by name. Links of machines that were sold are those that their makers publish and
// `nvidia-smi topo -m` prints on them; what differs between two of a kind (peer-to-peer access over PCIe) is unknown.
var presets = []PresetMachine{
	{"16xV100", []string{"DGX-2", "HGX-2"}, "DGX-2: sixteen V100 with 6 NVLinks each into NVSwitch", switched(16, 6, v100)},
	{"2xBridge", []string{"2x3090", "NVLink bridge"}, "two RTX 3090 on an NVLink bridge of 4 links", switched2},
	{"2xPCIe", []string{"2x5090", "2xRTX5090"}, "two GPUs on one processor, PCIe only", pcie(2, 2, PHB, SYS, rtx5090)},
	{"4xA100", []string{"HGX A100 4-GPU", "A100 mesh"}, "four A100, every two joined by 4 NVLinks, no switch", mesh4},
	{"4xNVLinkPairs", []string{"NVLink pairs", "NVLinkPairs", "4xA100-PCIe"}, "four A100 PCIe in two pairs of 12 NVLinks, SYS between the pairs", pairs(4)},
	{"4xPCIe", []string{"4xRTXPRO6000"}, "four GPUs on one processor, PCIe only", pcie(4, 4, NODE, SYS, rtxPro6000)},
	{"8x4090", []string{"8xRTX4090"}, "eight RTX 4090 that a server shows as SYS among all", pcie(8, 1, SYS, SYS, rtx4090)},
	{"8x910B", []string{"8xAscend910B", "Atlas 800T A2"}, "eight Ascend 910B, HCCS between every two", uniform8(Link{Class: HCCS}, Device{Name: "Ascend 910B"})},
	{"8xA100", []string{"DGX A100", "HGX A100", "HGX A100 8-GPU"}, "HGX A100: eight A100 with 12 NVLinks each into NVSwitch", switched(8, 12, a100)},
	{"8xB200", []string{"HGX B200", "DGX B200"}, "HGX B200: eight B200 with 18 NVLinks each into NVSwitch", switched(8, 18, Device{Name: "NVIDIA B200", Capability: "10.0"})},
	{"8xB300", []string{"HGX B300", "DGX B300"}, "HGX B300: eight B300 with 18 NVLinks each into NVSwitch", switched(8, 18, Device{Name: "NVIDIA B300", Capability: "10.3"})},
	{"8xH200", []string{"HGX H200", "DGX H200"}, "HGX H200: eight H200 with 18 NVLinks each into NVSwitch", switched(8, 18, Device{Name: "NVIDIA H200", Capability: "9.0"})},
	{"8xL40S", nil, "eight L40S: PIX in pairs, NODE within a processor, SYS across", l40s8},
	{"8xMI300X", []string{"MI300X"}, "eight MI300X, XGMI between every two", uniform8(Link{Class: XGMI}, Device{Name: "AMD Instinct MI300X"})},
	{"8xNVLinkPairs", []string{"8xH100-NVL"}, "eight H100 NVL in four pairs of 12 NVLinks", pairs(8)},
	{"8xNVSwitch", []string{"8xH100", "HGX H100", "DGX H100", "NVSwitch"}, "HGX H100: eight H100 with 18 NVLinks each into NVSwitch", switched(8, 18, Device{Name: "NVIDIA H100 80GB HBM3", Capability: "9.0"})},
	{"8xPCIe", []string{"8xRTXPRO6000", "PCIe"}, "eight RTX PRO 6000 on PCIe Gen5, four to a processor, no switch and no NVLink", pcie(8, 4, NODE, SYS, rtxPro6000)},
	{"DGX-1", []string{"8xV100", "DGX-1 cube mesh", "cube mesh", "hybrid cube mesh"}, "DGX-1: eight V100 in a hybrid cube mesh; two quads are full NVLink, the eight are not", dgx1},
	{"p3.8xlarge", []string{"4xV100"}, "AWS p3.8xlarge: four V100, every two joined by 1 or 2 NVLinks", p3},
}

// Presets lists the machines that Preset knows, sorted by name.
func Presets() []PresetMachine { return slices.Clone(presets) }

// Preset is a well-known topology by name. Case, blanks, hyphens and dots do not matter, and × is x.
func Preset(name string) (Graph, error) {
	same := func(other string) bool { return plainName(other) == plainName(name) }
	for _, p := range presets {
		if same(p.Name) || slices.ContainsFunc(p.Aliases, same) {
			g := p.make()
			for i := range g.Devices {
				g.Devices[i].Vendor = VendorOf(g.Devices[i].Name)
			}
			return g, nil
		}
	}
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.Name
	}
	return Graph{}, fmt.Errorf("unknown topology %q, want one of %s", name, strings.Join(names, ", "))
}

// IsPreset reports whether Preset knows a name.
func IsPreset(name string) bool { _, err := Preset(name); return err == nil }

var ignored = strings.NewReplacer(" ", "", "-", "", "_", "", ".", "", "×", "x")

func plainName(s string) string { return ignored.Replace(strings.ToLower(s)) }
