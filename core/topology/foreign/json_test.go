package foreign_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// rocmJSON is what `rocm-smi --showtopo --json` prints for so many GPUs, keys and order as in rocm_smi.py.
func rocmJSON(gpus int, kind func(a, b int) string) string {
	var pairs, cards []string
	for a := range gpus {
		cards = append(cards, fmt.Sprintf(`"card%d": {"(Topology) Numa Node": "%d", "(Topology) Numa Affinity": "%d"}`, a, a/2, a/2))
	}
	for _, what := range []string{"Weight", "Hops", "Link type"} {
		for a := range gpus {
			for b := a + 1; b < gpus; b++ {
				value := map[string]string{"Weight": "15", "Hops": "1", "Link type": kind(a, b)}[what]
				pairs = append(pairs, fmt.Sprintf(`"(Topology) %s between DRM devices %d and %d": "%s"`, what, a, b, value))
			}
		}
	}
	return "{" + strings.Join(cards, ", ") + `, "system": {` + strings.Join(pairs, ", ") + "}}"
}

func xgmi(int, int) string { return "XGMI" }

func TestROCmJSON(t *testing.T) {
	whole := rocmJSON(4, xgmi)
	var indented []byte
	var parsed map[string]any
	if err := json.Unmarshal([]byte(whole), &parsed); err != nil {
		t.Fatal(err)
	}
	indented, _ = json.MarshalIndent(parsed, "> ", "    ")
	for name, paste := range map[string]string{
		"one line": whole, "quoted and indented": "> $ rocm-smi --showtopo --json\n> " + string(indented),
		"small letters": strings.Replace(strings.ToLower(whole), "xgmi", "XGMI", -1),
	} {
		r := read(t, []byte(paste))
		if r.Format() != foreign.ROCmSMI || len(r.Graph.Devices) != 4 || r.Complete != foreign.Whole || r.Graph.Complete != topology.Yes ||
			r.Worst().Class != topology.XGMI || r.FullNVLink() != topology.No || r.Graph.Devices[3].NUMA != "1" || len(r.Warnings) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}

	mixed := read(t, []byte(rocmJSON(4, func(a, b int) string {
		switch {
		case a/2 == b/2:
			return "XGMI"
		case a == 0 && b == 3:
			return "XXXX"
		}
		return "PCIE"
	})))
	for name, want := range map[string]topology.Class{"0-1": topology.XGMI, "1-0": topology.XGMI, "0-2": topology.PCIe, "2-3": topology.XGMI, "0-3": topology.Unknown} {
		if got := pair(t, mixed, name).Class; got != want {
			t.Errorf("pair %s is %s, want %s", name, got, want)
		}
	}
	if !strings.Contains(strings.Join(mixed.Warnings, "\n"), "GPU0 and GPU3 is not printed as PCIE or XGMI") {
		t.Errorf("warnings %q", mixed.Warnings)
	}
}

// TestROCmJSONCut: at whatever byte a JSON ends, no link is shown that is not there, and a text without all links says so.
func TestROCmJSONCut(t *testing.T) {
	whole := rocmJSON(3, xgmi)
	for n := range len(whole) {
		r, err := foreign.Read([]byte(whole[:n]))
		if err != nil {
			if strings.Contains(whole[:n], "Numa Node\": \"0\"") {
				t.Errorf("cut at %d: %v", n, err)
			}
			continue
		}
		if shown := strings.Count(whole[:n], `": "XGMI`); r.Complete == foreign.Whole && shown < 3 && len(r.Graph.Devices) > 1 {
			t.Errorf("cut at %d, with %d links of 3: whole", n, shown)
		}
	}
}

func TestROCmJSONOfMore(t *testing.T) {
	two, err := foreign.ReadAll([]byte(rocmJSON(2, xgmi) + "\n" + rocmJSON(4, xgmi)))
	if err != nil || len(two) != 2 || len(two[0].Graph.Devices) != 2 || len(two[1].Graph.Devices) != 4 {
		t.Errorf("%d machines, %v", len(two), err)
	}
	r := read(t, []byte(`{"card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"}, "card1": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"},
		"system": {"(Topology) Link accessibility between DRM devices 0 and 1": "True", "(Topology) Link type between DRM devices 0 and 1": "XGMI"}}`))
	if d := r.Graph.Devices[1]; d.Name != "AMD Instinct MI300X" || d.Capability != "gfx942" || r.Graph.P2P != topology.P2PReported {
		t.Errorf("%+v, P2P %s", d, r.Graph.P2P)
	}
	if r, err := foreign.Read([]byte(`{"card0": {"Temperature (Sensor edge) (C)": "35.0", "Card Series": "x"}}`)); err == nil {
		t.Errorf("a JSON without a topology is read as %+v", r)
	}
}

// queryXML is a GPU of `nvidia-smi -q -x`, cut down to an element of each kind that has given trouble.
func queryXML(bus, mig string, n int) string {
	return fmt.Sprintf(`	<gpu id="00000000:%s:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<product_architecture>Hopper</product_architecture>
		<mig_mode>
			<current_mig>%s</current_mig>
		</mig_mode>
		<uuid>GPU-00000000-0000-0000-0000-00000000000%d</uuid>
		<minor_number>%d</minor_number>
		<gpu_operation_mode>
			<current_gom>N/A</current_gom>
		</gpu_operation_mode>
		<pci>
			<pci_bus>%s</pci_bus>
			<pci_bus_id>00000000:%s:00.0</pci_bus_id>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>5</max_link_gen>
				</pcie_gen>
			</pci_gpu_link_info>
		</pci>
	</gpu>
`, bus, mig, n, n, bus, bus)
}

func TestQueryXML(t *testing.T) {
	fragment := queryXML("1B", "Disabled", 0) + queryXML("C3", "Disabled", 1)
	log := "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n\t<driver_version>570.86</driver_version>\n\t<attached_gpus>%d</attached_gpus>\n" + fragment + "</nvidia_smi_log>\n"
	const matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n\n"
	for name, c := range map[string]struct {
		text    string
		formats []string
		whole   bool
		link    topology.Class
		warning string
	}{
		"from a GPU on":     {fragment, []string{foreign.QueryXML}, false, topology.Unknown, "not whole: there may be more GPUs than the 2 shown"},
		"whole":             {fmt.Sprintf(log, 2), []string{foreign.QueryXML}, true, topology.Unknown, "says nothing on links"},
		"a GPU is missing":  {fmt.Sprintf(log, 3), []string{foreign.QueryXML}, false, topology.Unknown, "not whole"},
		"with a matrix":     {matrix + fragment, []string{foreign.TopoM, foreign.QueryXML}, true, topology.NVLink, ""},
		"before the matrix": {fmt.Sprintf(log, 2) + matrix, []string{foreign.TopoM, foreign.QueryXML}, true, topology.NVLink, ""},
		"divided":           {matrix + strings.ReplaceAll(fragment, "Disabled", "Enabled"), []string{foreign.TopoM, foreign.QueryXML}, true, topology.NVLink, "MIG is on"},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, []byte(c.text))
			if !slices.Equal(r.Formats, c.formats) || (r.Complete == foreign.Whole) != c.whole || len(r.Graph.Devices) != 2 {
				t.Fatalf("formats %v, %s, %d GPUs", r.Formats, r.Complete, len(r.Graph.Devices))
			}
			if d := r.Graph.Devices[1]; d.Name != "NVIDIA H100 80GB HBM3" || d.UUID != "GPU-00000000-0000-0000-0000-000000000001" || d.PCIBusID != "0000:c3:00.0" {
				t.Errorf("device %+v", d)
			}
			if got := pair(t, r, "0-1").Class; got != c.link {
				t.Errorf("link %s, want %s", got, c.link)
			}
			if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, c.warning) || c.warning == "" && all != "" {
				t.Errorf("warnings %q", all)
			}
		})
	}
}

// TestMoreGPUsThanAreRead: what is left out is said, and the rest is not taken for the whole machine, nor GPUs for NICs.
func TestMoreGPUsThanAreRead(t *testing.T) {
	matrix := func(n int) string {
		var b strings.Builder
		for a := range n {
			fmt.Fprintf(&b, "\tGPU%d", a)
		}
		b.WriteString("\tCPU Affinity\n")
		for a := range n {
			fmt.Fprintf(&b, "GPU%d%s\tX%s\t0-7\n", a, strings.Repeat("\tNV18", a), strings.Repeat("\tNV18", n-1-a))
		}
		return b.String()
	}
	pci := func(n int) string {
		return "<system version=\"1\">" + strings.Repeat(`<cpu numaid="0"><pci busid="0000:01:00.0" class="0x030000"><gpu dev="0" sm="90"/></pci></cpu>`, n) + "</system>"
	}
	cards := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"card%d": {"(Topology) Numa Node": "0"}`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for name, c := range map[string]struct {
		text string
		over bool
	}{
		"matrix of 256": {matrix(256), false}, "matrix of 257": {matrix(257), true}, "matrix of 300": {matrix(300), true},
		"XML of 256": {pci(256), false}, "XML of 257": {pci(257), true},
		"JSON of 300": {cards(300), true}, "XML of -q -x": {strings.Repeat(queryXML("1B", "N/A", 0), 257), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, []byte(c.text))
			warned := strings.Contains(strings.Join(r.Warnings, "\n"), "more than 256 GPUs")
			if len(r.Graph.Devices) != 256 || warned != c.over || (r.Complete == foreign.Whole) == c.over || len(r.NICs) != 0 {
				t.Errorf("%d GPUs, %d NICs, complete %s, warnings %.200q", len(r.Graph.Devices), len(r.NICs), r.Complete, r.Warnings)
			}
			if c.over && r.FullNVLink() == topology.Yes {
				t.Error("full NVLink, of which a part was not read")
			}
		})
	}
}
