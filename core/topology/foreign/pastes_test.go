package foreign_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// summary is what a person reads in a paste at a glance.
func summary(r foreign.Reading) string {
	counts := map[string]int{}
	links := r.Links()
	for a := range links {
		for b := range a {
			counts[links[a][b].String()]++
		}
	}
	var all []string
	for _, c := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s:%d", c, counts[c]))
	}
	return fmt.Sprintf("%s; %d; %s; worst %s; full %s; groups %v; complete %s", r.Format(), len(r.Graph.Devices), strings.Join(all, " "),
		r.Worst(), r.FullNVLink(), r.NVLinkGroups(), r.Complete)
}

// TestPastes reads more texts as people pasted them; where each was seen stands beside it.
func TestPastes(t *testing.T) {
	const nvidia, rocm, npu = "nvidia-smi topo -m; ", "rocm-smi --showtopo; ", "npu-smi info -t topo; "
	for _, c := range []struct {
		file, want string
		last       topology.Device // index, CPUs and NUMA node of the last device
		warns      []string        // beginnings, in any order
	}{
		// A note on NVLink (public GitHub file, idx 39458001138).
		{"3gpu-a6000-one-bridge.txt", nvidia + "3; NODE:2 NV4:1; worst NODE; full no; groups [[0 1]]; complete yes", topology.Device{Index: 2, CPUAffinity: "0-31,64-95", NUMA: "0"}, []string{"GPU2 has 0 NVLinks", "peer-to-peer"}},
		// A course on DGX-1 (idx 23632858869).
		{"8gpu-p100-header-glued.txt", nvidia + "8; NV1:16 SYS:12; worst SYS; full no; groups [[0 1 2 3] [4 5 6 7]]; complete yes", topology.Device{Index: 7, CPUAffinity: "1-1"}, []string{"peer-to-peer"}},
		// A cloud's V100 (idx 52610363889).
		{"8gpu-v100-vm-phb.txt", nvidia + "8; NV1:8 NV2:8 PHB:12; worst PHB; full no; groups [[0 1 2 3] [4 5 6 7]]; complete yes", topology.Device{Index: 7, CPUAffinity: "0-63", NUMA: "0-1"}, []string{"peer-to-peer"}},
		// A job script found by grep (idx 46896397360).
		{"4gpu-a100-grep-prefix.txt", nvidia + "4; NV4:6; worst NV4; full yes; groups [[0 1 2 3]]; complete yes", topology.Device{Index: 3, CPUAffinity: "0-15", NUMA: "0"}, nil},
		// A job that was given one core (idx 20261889622).
		{"4gpu-a100-some-cpus-blank.txt", nvidia + "4; NV4:6; worst NV4; full yes; groups [[0 1 2 3]]; complete yes", topology.Device{Index: 3, NUMA: "1"}, nil},
		// A code view that ends its lines with bars (gist ashwin/e139748bdba15f5af63f0146d01ee4c3).
		{"4gpu-soc-code-view-bars.txt", nvidia + "4; PHB:2 SYS:4; worst SYS; full no; groups []; complete yes", topology.Device{Index: 3, CPUAffinity: "10-19,30-39"}, []string{"peer-to-peer"}},
		// A probe's output between lists of addresses (idx 62473782546).
		{"4gpu-l40-probe-sections.txt", nvidia + "4; NODE:2 SYS:4; worst SYS; full no; groups []; complete yes", topology.Device{Index: 3, CPUAffinity: "1,3,5,7,9,11", NUMA: "1"}, []string{"peer-to-peer"}},
		// A cloud's V100, numbered another way than a DGX-1 (idx 35246946826).
		{"8gpu-v100-permuted-mesh.txt", nvidia + "8; NV1:8 NV2:8 SYS:12; worst SYS; full no; groups [[0 1 2 3] [4 5 6 7]]; complete yes", topology.Device{Index: 7, CPUAffinity: "0-95"}, []string{"peer-to-peer"}},
		// One GPU of an AC922 (idx 25105279828).
		{"1gpu-power9-numa-list.txt", nvidia + "1; ; worst unknown; full unknown; groups []; complete yes", topology.Device{CPUAffinity: "0-3", NUMA: "0,8,252-255"}, nil},
		// Remarks behind the rows (idx 53296907738).
		{"4gpu-a100-mixed-arrows.txt", nvidia + "4; NV12:1 PIX:1 SYS:4; worst SYS; full no; groups [[0 1]]; complete yes", topology.Device{Index: 3}, []string{"peer-to-peer"}},
		// The matrix of local-inference-lab/rtx6kpro's switch pages, four of its GPUs, between its measurements.
		{"4gpu-pix-pxb-with-measurements.txt", nvidia + "4; PIX:2 PXB:4; worst PXB; full no; groups []; complete yes", topology.Device{Index: 3}, []string{"peer-to-peer"}},
		// A test's data, tabs written out (idx 58579790270).
		{"8gpu-rocm-two-quads.txt", rocm + "8; PCIE:16 XGMI:12; worst PCIE; full no; groups []; complete yes", topology.Device{Index: 7, NUMA: "1"}, nil},
		// Two Radeons without access, all tables of the tool (idx 57129709323).
		{"2gpu-amd-smi-all-tables.txt", "amd-smi topology; 2; PCIE:1; worst PCIE; full no; groups []; complete yes", topology.Device{Index: 1}, []string{"no peer-to-peer access (NS)"}},
		// A benchmark's log on a quad GH200 node (idx 24648545835).
		{"4gpu-gh200-own-nodes.txt", nvidia + "4; NV6:6; worst NV6; full yes; groups [[0 1 2 3]]; complete yes", topology.Device{Index: 3, CPUAffinity: "216-287", NUMA: "3,29-35"}, nil},
		// Remarks in arrows behind the rows (idx 35823911341).
		{"4gpu-h200-nvl-remarks.txt", nvidia + "4; NV6:6; worst NV6; full yes; groups [[0 1 2 3]]; complete yes", topology.Device{Index: 3}, nil},
		// A page that explains in its own words the two classes that it has (idx 57009408460): no legend of -mp.
		{"4gpu-pix-some-classes-explained.txt", nvidia + "4; NODE:4 PIX:2; worst NODE; full no; groups []; complete yes", topology.Device{Index: 3}, []string{"peer-to-peer"}},
		// SGLang's report of an environment, Atlas A3 (idx 54589108107).
		{"2npu-two-dies.txt", npu + "2; SIO:1; worst SIO; full no; groups []; complete yes", topology.Device{Index: 13}, nil},
		// NA is in the legend of npu-smi.
		{"2npu-unknown-relationship.txt", npu + "2; unknown:1; worst unknown; full unknown; groups []; complete yes", topology.Device{Index: 1, CPUAffinity: "0-23"}, []string{"the link of NPU0 and NPU1 is printed as NA"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			r := read(t, b)
			if diff := cmp.Diff(c.want, summary(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			d := r.Graph.Devices[len(r.Graph.Devices)-1]
			if diff := cmp.Diff(c.last, topology.Device{Index: d.Index, CPUAffinity: d.CPUAffinity, NUMA: d.NUMA}); diff != "" {
				t.Errorf("last device (-want +got):\n%s", diff)
			}
			if len(r.Warnings) != len(c.warns) {
				t.Errorf("warnings %q, want %q", r.Warnings, c.warns)
			}
			for _, w := range c.warns {
				if !slices.ContainsFunc(r.Warnings, func(s string) bool { return strings.HasPrefix(s, w) }) {
					t.Errorf("no warning %q… in %q", w, r.Warnings)
				}
			}
		})
	}
}

// TestNPUClasses reads the matrix of a server whose NPUs have two dies and a switch between them.
func TestNPUClasses(t *testing.T) {
	for _, label := range []string{"NPU", "Phy-ID"} {
		text := fmt.Sprintf("\t%[1]s0\t%[1]s1\t%[1]s2\tCPU Affinity\n%[1]s0\tX\tSIO\tHCCS_SW\t0-39\n%[1]s1\tSIO\tX\tHCCS_SW\t0-39\n%[1]s2\tHCCS_SW\tHCCS_SW\tX\t40-79\n", label)
		if got, want := summary(read(t, []byte(text))), "npu-smi info -t topo; 3; HCCS:2 SIO:1; worst HCCS; full no; groups []; complete yes"; got != want {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
}

// TestOwnNUMANode reads rows of machines that have no NUMA nodes, such as WSL: the N/A is the GPU's own node.
func TestOwnNUMANode(t *testing.T) {
	const head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
	for name, c := range map[string]struct{ text, cpu, numa string }{
		"neither":             {head + "GPU0\t X \tSYS\t\t\t\tN/A\nGPU1\tSYS\t X \t\t\t\tN/A\n", "", ""},
		"neither, in blanks":  {expand(head + "GPU0\t X \tSYS\t\t\t\tN/A\nGPU1\tSYS\t X \t\t\t\tN/A\n"), "", ""},
		"CPUs only":           {head + "GPU0\t X \tSYS\t0-15\t\t\tN/A\nGPU1\tSYS\t X \t0-15\t\t\tN/A\n", "0-15", ""},
		"node only":           {head + "GPU0\t X \tSYS\t\t0\t\tN/A\nGPU1\tSYS\t X \t\t0\t\tN/A\n", "", "0"},
		"N/A for the node":    {head + "GPU0\t X \tSYS\t0-15\tN/A\t\tN/A\nGPU1\tSYS\t X \t0-15\tN/A\t\tN/A\n", "0-15", "N/A"},
		"a driver without it": {"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-15\t\tN/A\nGPU1\tSYS\t X \t0-15\t\tN/A\n", "0-15", "N/A"},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, []byte(c.text))
			if d := r.Graph.Devices[1]; d.CPUAffinity != c.cpu || d.NUMA != c.numa {
				t.Errorf("CPUs %q and NUMA node %q, want %q and %q in\n%s", d.CPUAffinity, d.NUMA, c.cpu, c.numa, c.text)
			}
			if slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "row ") }) {
				t.Errorf("%q", r.Warnings)
			}
		})
	}
}
