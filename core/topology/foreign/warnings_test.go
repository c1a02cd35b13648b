package foreign_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// square is a matrix of `topo -m`, or of -p2p, with the cells of its rows.
func square(rows ...string) string {
	var b strings.Builder
	for i := range rows {
		b.WriteString("\tGPU" + itoa(i))
	}
	b.WriteString("\n")
	for i, r := range rows {
		b.WriteString("GPU" + itoa(i) + "\t" + strings.Join(strings.Fields(r), "\t") + "\n")
	}
	return b.String()
}

func itoa(n int) string { return string(rune('0' + n)) }

const p2p = "nvidia-smi topo -p2p "

func TestWarnings(t *testing.T) {
	status := func(counts ...int) string {
		s := ""
		for i, n := range counts {
			s += "GPU " + itoa(i) + ": NVIDIA X (UUID: GPU-" + itoa(i) + ")\n"
			for k := range n {
				s += "\t Link " + itoa(k) + ": 26.562 GB/s\n"
			}
			if n == 0 {
				s += "NVML: Unable to retrieve NVLink information as all links are inActive\n"
			}
		}
		return s
	}
	for name, c := range map[string]struct {
		text string
		want string // "" for no warning
	}{
		"full NVLink":                {square("X NV18 NV18", "NV18 X NV18", "NV18 NV18 X"), ""},
		"asymmetric":                 {square("X NV4", "SYS X"), "the matrix contradicts itself: GPU1 to GPU0 is SYS, GPU0 to GPU1 is NV4; the worse of the two counts"},
		"PCIe without evidence":      {square("X PIX", "PIX X"), "peer-to-peer access over PCIe (PIX) is unknown: run `weir doctor` on the machine, or add the output of `nvidia-smi topo -p2p r`; ACS or an IOMMU"},
		"PCIe with evidence":         {square("X PHB", "PHB X") + p2p + "r\n" + square("X OK", "OK X"), "peer-to-peer access over PCIe (PHB) is reported, not proven: run `weir doctor` on the machine before"},
		"refused":                    {square("X PHB", "PHB X") + p2p + "r\n" + square("X GNS", "GNS X"), "no peer-to-peer access (GNS) between GPU0-GPU1, GPU1-GPU0: these GPUs or their driver do not offer it"},
		"disabled":                   {p2p + "w\n" + square("X DR", "DR X"), "(DR) between GPU0-GPU1, GPU1-GPU0: disabled by a setting of the driver"},
		"one direction refused":      {square("X PHB", "PHB X") + p2p + "r\n" + square("X OK", "CNS X"), "contradiction: peer-to-peer access is reported from GPU0 to GPU1 and none in the other direction"},
		"NVLink without access":      {square("X NV4", "NV4 X") + p2p + "r\n" + square("X NS", "NS X"), "contradiction: GPU0 and GPU1 are joined by NVLink and have no peer-to-peer access"},
		"NVLink access without link": {square("X PHB", "PHB X") + p2p + "n\n" + square("X OK", "OK X"), "contradiction: the matrix shows PHB between GPU0 and GPU1, `topo -p2p n` shows NVLink access OK"},
		"link without NVLink access": {square("X NV4", "NV4 X") + p2p + "n\n" + square("X NS", "NS X"), "contradiction: the matrix shows NV4 between GPU0 and GPU1, `topo -p2p n` shows NVLink access NS"},
		"NVLink access agrees":       {square("X NV4", "NV4 X") + p2p + "n\n" + square("X OK", "OK X"), ""},
		"other GPUs in p2p":          {square("X NV4", "NV4 X") + p2p + "r\n" + square("X OK OK", "OK X OK", "OK OK X"), "`topo -p2p` shows GPU2, which the other matrix does not have"},
		"one off the fabric":         {square("X NV8 NV8 SYS", "NV8 X NV8 SYS", "NV8 NV8 X SYS", "SYS SYS SYS X"), "GPU3 is off the fabric: no NVLink, while 3 other GPUs have it"},
		"one of three":               {square("X NV4 PHB", "NV4 X PHB", "PHB PHB X"), "!fabric"},
		"fewer links of one":         {square("X NV18 NV12", "NV18 X NV12", "NV12 NV12 X"), "GPU2 has fewer NVLinks (NV12) than others (NV18)"},
		"Volta's mesh":               {square("X NV1 NV2", "NV1 X NV1", "NV2 NV1 X"), ""},
		"a number that no part has":  {square("X NV17", "NV17 X"), "GPU0 and GPU1 are joined by 17 NVLinks, a number that no bridge has"},
		"fewer than the part":        {"GPU 0: NVIDIA RTX A6000 (UUID: GPU-0)\nGPU 1: NVIDIA RTX A6000 (UUID: GPU-1)\n" + square("X NV2", "NV2 X"), "GPU0 and GPU1 are joined by 2 NVLinks; a bridge of RTX A6000 has 4"},
		"states agree":               {status(4, 4) + square("X NV4", "NV4 X"), ""},
		"a link failed since":        {status(4, 3) + square("X NV4", "NV4 X"), "contradiction: the matrix shows 4 NVLinks of GPU1, `nvlink -s` 3 that are up"},
		"links to elsewhere":         {status(4, 4) + square("X PHB", "PHB X"), "contradiction: `nvlink -s` shows 4 NVLinks of GPU0 that are up, the matrix none"},
		"state of another machine":   {square("X NV4", "NV4 X") + status(4, 4, 4), "GPU 2 is listed, but the matrix does not have it"},
		"-mp":                        {"nvidia-smi topo -mp\n" + square("X PHB", "PHB X"), "`topo -mp` hides NVLink"},
		"-m beside -mp":              {"nvidia-smi topo -mp\n" + square("X PHB", "PHB X") + "nvidia-smi topo -m\n" + square("X NV4", "NV4 X"), ""},
		"MIG":                        {"GPU 0: NVIDIA A100 (UUID: GPU-0)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n", "MIG is on"},
		"not told":                   {square("X N/A", "N/A X"), "the link of GPU0 and GPU1 is printed as N/A: the driver could not tell it"},
		"SYS within a node":          {"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0-7\t0\nGPU1\tSYS\tX\t0-7\t0\n", "GPUs of one NUMA node are connected as SYS"},
		"several not told":           {square("X N/A ERR! N/A", "N/A X N/A NODE", "ERR! N/A X NODE", "N/A NODE NODE X"), "the link of GPU0 and GPU1 (and 2 other pairs) is printed as N/A: the driver could not tell it"},
		"NODE between many nodes": {
			"\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNODE\tNODE\t0-7\t0\nGPU1\tNODE\tX\tSYS\t8-15\t1\nGPU2\tNODE\tSYS\tX\t16-31\t2\n",
			"contradiction: GPU0 and GPU1 are connected as NODE, within one NUMA node, but are printed as of nodes 0 and 1 (and 1 other pair)",
		},
		"NPUs over PCIe":        {"\tNPU0\tNPU1\nNPU0\tX\tPHB\nNPU1\tPHB\tX\n", "peer-to-peer access over PCIe (PHB) is unknown: ask `npu-smi info -t p2p-enable` of each card"},
		"NODE between nodes":    {"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNODE\t0-7\t0\nGPU1\tNODE\tX\t8-15\t1\n", "contradiction: GPU0 and GPU1 are connected as NODE, within one NUMA node, but are printed as of nodes 0 and 1"},
		"a row is missing":      {"\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV4\tNV4\nGPU2\tNV4\tNV4\tX\n", "rows are missing or not whole (GPU1)"},
		"header of other rows":  {"\tGPU0\tGPU1\nGPU0\tX\tNV4\tNV4\nGPU1\tNV4\tX\tNV4\nGPU2\tNV4\tNV4\tX\n", "the header does not fit the rows"},
		"columns without rows":  {"GPU0\tX\tPIX\tSYS\t0-7\nGPU1\tPIX\tX\tSYS\t0-7\n", "there is no header and there are more columns (3) than rows of GPUs (2)"},
		"affinity in no column": {"GPU0 GPU1 CPU Affinity NUMA Affinity GPU0 X NV4 1 GPU1 NV4 X 1", `row GPU0: "1" stands after the matrix and no column can be told for it`},
	} {
		t.Run(name, func(t *testing.T) {
			r := read(t, []byte(c.text))
			got := strings.Join(r.Warnings, "\n")
			if unwanted, ok := strings.CutPrefix(c.want, "!"); ok {
				if strings.Contains(got, unwanted) {
					t.Errorf("warnings %q", got)
				}
				return
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("warnings %q, want %q\n%s", got, c.want, c.text)
			}
		})
	}
}

// TestCombined puts outputs of one machine together in any order.
func TestCombined(t *testing.T) {
	parts := []string{
		"$ nvidia-smi topo -m\n" + square("X NV4 PHB", "NV4 X PHB", "PHB PHB X"),
		"$ nvidia-smi topo -p2p r\n" + square("X OK GNS", "OK X GNS", "GNS GNS X"),
		"$ nvidia-smi topo -p2p n\n" + square("X OK NS", "OK X NS", "NS NS X"),
		"$ nvidia-smi nvlink -s\nGPU 0: NVIDIA A40 (UUID: GPU-a)\n\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n\t Link 2: 14.062 GB/s\n\t Link 3: 14.062 GB/s\n" +
			"GPU 1: NVIDIA A40 (UUID: GPU-b)\n\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n\t Link 2: 14.062 GB/s\n\t Link 3: 14.062 GB/s\n" +
			"GPU 2: NVIDIA A40 (UUID: GPU-c)\nNVML: Unable to retrieve NVLink information as all links are inActive\n",
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		text := ""
		for _, i := range order {
			text += parts[i]
		}
		r := read(t, []byte(text))
		if r.Format() != foreign.TopoM || len(r.Formats) != 3 || r.Worst().String() != "PHB" || groups(r) != "0,1" || r.Complete != foreign.Whole {
			t.Errorf("%v: formats %v, worst %s, groups %s", order, r.Formats, r.Worst(), groups(r))
		}
		if p := r.Graph.Peers[0][1]; p != (topology.Peer{Read: "OK", NVLink: "OK"}) || r.Graph.Peers[2][0].Read != "GNS" || r.Graph.P2P != topology.P2PNone {
			t.Errorf("%v: peers %v", order, r.Graph.Peers)
		}
		if d := r.Graph.Devices[2]; d.UUID != "GPU-c" || d.Name != "NVIDIA A40" || r.NVLinks[2] != 0 || r.NVLinks[0] != 4 {
			t.Errorf("%v: device %+v, NVLinks %v", order, d, r.NVLinks)
		}
	}
}

func TestSeveralMachines(t *testing.T) {
	one := "node1 $ nvidia-smi topo -m\n" + square("X NV4", "NV4 X") + p2p + "r\n" + square("X OK", "OK X")
	two := "node2 $ nvidia-smi topo -m\n" + square("X SYS", "SYS X") + p2p + "r\n" + square("X CNS", "CNS X")
	all, err := foreign.ReadAll([]byte(one + two + two))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d machines, %v", len(all), err)
	}
	if all[0].Worst().String() != "NV4" || all[0].Graph.P2P != topology.P2PReported || all[1].Worst().String() != "SYS" || all[2].Graph.P2P != topology.P2PNone {
		t.Errorf("machines %+v", all)
	}
	r := read(t, []byte(one+two))
	if r.Worst().String() != "NV4" || !strings.Contains(strings.Join(r.Warnings, "\n"), "the output of 2 machines") {
		t.Errorf("worst %s, warnings %q", r.Worst(), r.Warnings)
	}
	xml := text(t, "nccl-xml", "x04-2xA100-nv12-direct.xml")
	if all, err := foreign.ReadAll(append(xml, xml...)); err != nil || len(all) != 2 {
		t.Errorf("two XMLs: %d machines, %v", len(all), err)
	}
}

// TestBetweenEachOther are the lines of two like machines that write at the same time.
func TestBetweenEachOther(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(square("X NV4 SYS", "NV4 X SYS", "SYS SYS X")) {
		b.WriteString("0: " + line + "1: " + line)
	}
	r := read(t, []byte(b.String()))
	if len(r.Graph.Devices) != 3 || r.Complete != foreign.Whole || groups(r) != "0,1" {
		t.Errorf("%d GPUs, complete %s, groups %s", len(r.Graph.Devices), r.Complete, groups(r))
	}
}

func TestNICs(t *testing.T) {
	r := read(t, text(t, "topo", "t042-2gpu-node-second-numa-nic-legend.txt"))
	if len(r.NICs) != 2 || r.NICs[1].Name != "NIC1" || r.NICs[1].Device != "mlx5_1" || r.NICs[1].Links[0].String() != "NODE" {
		t.Errorf("NICs %+v", r.NICs)
	}
	r = read(t, text(t, "topo", "t006-8gpu-v100-dgx1-mlx-names.txt"))
	if len(r.NICs) != 4 || r.NICs[1].Name != "mlx5_2" || r.NICs[1].Device != "mlx5_2" || r.NICs[1].Links[0].String() != "SYS" || r.NICs[1].Links[4].String() != "PIX" {
		t.Errorf("NICs %+v", r.NICs)
	}
}

// TestAMDTables has the other tables of newer versions.
func TestAMDTables(t *testing.T) {
	matrix := func(title, self, cell string) string {
		return title + ":\n             0000:0c:00.0 0000:22:00.0\n0000:0c:00.0 " + self + " " + cell + "\n0000:22:00.0 " + cell + " " + self + "\n\n"
	}
	all := matrix("ACCESS TABLE", "ENABLED", "ENABLED") + matrix("WEIGHT TABLE", "0", "15") + matrix("HOPS TABLE", "0", "1") + matrix("LINK TYPE TABLE", "SELF", "XGMI") +
		matrix("NUMA BW TABLE", "N/A", "50000-100000") + matrix("CACHE COHERANCY TABLE", "SELF", "C") + matrix("ATOMICS TABLE", "N/A", "64,32") +
		matrix("DMA TABLE", "SELF", "T") + matrix("BI-DIRECTIONAL TABLE", "SELF", "T") + "Legend:\n SELF = Current GPU\n ENABLED / DISABLED = Link is enabled or disabled\n N/A = Not supported\n"
	r := read(t, []byte(all))
	if len(r.Graph.Devices) != 2 || r.Worst().String() != "XGMI" || r.Graph.P2P != topology.P2PReported || r.Complete != foreign.Whole || len(r.Formats) != 1 {
		t.Errorf("%+v", r)
	}
	rocm := "= Link accessibility between two GPUs =\n       GPU0 GPU1\nGPU0   True False\nGPU1   False True\n= Link Type between two GPUs =\n       GPU0 GPU1\nGPU0   0 PCIE\nGPU1   PCIE 0\n"
	if r = read(t, []byte(rocm)); r.Worst().String() != "PCIE" || r.Graph.P2P != topology.P2PNone {
		t.Errorf("%+v", r)
	}
}

// TestMixed are the XML and the matrix of one machine.
func TestMixed(t *testing.T) {
	xml := string(text(t, "nccl-xml", "x04-2xA100-nv12-direct.xml"))
	r := read(t, []byte(square("X NV12", "NV12 X")+xml))
	if len(r.Formats) != 2 || r.Format() != foreign.TopoM || r.Graph.Devices[1].Capability != "8.0" || len(r.Warnings) != 0 {
		t.Errorf("formats %v, devices %+v, warnings %q", r.Formats, r.Graph.Devices, r.Warnings)
	}
	r = read(t, []byte(square("X SYS", "SYS X")+xml))
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "full NVLink is no by the one, yes by the other") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "line 1, column 1: the text is empty"},
		"blanks":            {" \n\t\n\x1b[0m", "line 1, column 1: the text is empty"},
		"prose":             {"GPU0 and GPU1 are slow, GPU0 SYS is what I see", "line 1, column 1: no topology found"},
		"header only":       {"\tGPU0\tGPU1\tCPU Affinity\n", "line 1, column 1: no topology found"},
		"a wrong class":     {"> \tGPU0\tGPU1\tGPU2\n> GPU0\tX\tPXX\tSYS\n", `line 2, column 10: "PXX" in row GPU0 is no link class`},
		"a column slid":     {square("X SYS SYS", "SYS SYS X", "SYS SYS X"), `line 3, column 10: row GPU1 has "SYS" in its own column (number 2)`},
		"after colours":     {"\x1b[4m\tGPU0\tGPU1\tGPU2\x1b[0m\nGPU0\tX\t\x1b[1mNV?4\x1b[0m\tNV4\n", `line 2, column 12: "NV?4" in row GPU0`},
		"behind wide runes": {"\tGPU0\tGPU1\tGPU2\n│ GPU0\tX\tPXX\tSYS\n", "line 2, column 10: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := foreign.Read([]byte(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
