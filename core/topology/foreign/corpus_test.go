package foreign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// corpus is the folder of texts of real machines; its README says where they are from.
const corpus = "testdata/corpus"

// index reads the table of a part of the corpus: one map of columns for each file.
func index(t testing.TB, part string) []map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, part, "index.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	heads := strings.Split(lines[0], "\t")
	var rows []map[string]string
	for _, l := range lines[1:] {
		row := map[string]string{}
		for i, v := range strings.Split(l, "\t") {
			row[heads[i]] = v
		}
		rows = append(rows, row)
	}
	return rows
}

func text(t testing.TB, part, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, part, file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t testing.TB, b []byte) foreign.Reading {
	t.Helper()
	r, err := foreign.Read(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return r
}

// groups writes sets of GPUs as the corpus does.
func groups(r foreign.Reading) string {
	sets := r.NVLinkGroups()
	if len(sets) == 0 {
		return "-"
	}
	var out []string
	for _, set := range sets {
		var s []string
		for _, i := range set {
			s = append(s, strconv.Itoa(r.Graph.Devices[i].Index))
		}
		out = append(out, strings.Join(s, ","))
	}
	return strings.Join(out, ";")
}

// pair is the link of two GPUs by their numbers.
func pair(t testing.TB, r foreign.Reading, name string) topology.Link {
	t.Helper()
	a, b, _ := strings.Cut(name, "-")
	at := func(s string) int {
		n, err := strconv.Atoi(s)
		i := slices.IndexFunc(r.Graph.Devices, func(d topology.Device) bool { return d.Index == n })
		if err != nil || i < 0 {
			t.Fatalf("no GPU %q", s)
		}
		return i
	}
	return r.Links()[at(a)][at(b)]
}

func TestTopoCorpus(t *testing.T) {
	for _, want := range index(t, "topo") {
		t.Run(want["id"], func(t *testing.T) {
			r := read(t, text(t, "topo", want["file"]))
			checkTopo(t, r, want)
		})
	}
}

// checkTopo compares a reading with a row of the index, every column.
func checkTopo(t *testing.T, r foreign.Reading, want map[string]string) {
	t.Helper()
	equal := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	equal("format", r.Format(), map[string]string{"topo-m": foreign.TopoM, "topo-mp": foreign.TopoMP}[want["kind"]])
	equal("GPUs", strconv.Itoa(len(r.Graph.Devices)), want["gpus"])
	full := want["full_nvlink"]
	if full == "n/a" {
		full = "unknown"
	}
	equal("full NVLink", r.FullNVLink().String(), full)
	for _, p := range strings.Fields(want["pairs"]) {
		if name, class, ok := strings.Cut(p, "="); ok {
			equal("pair "+name, pair(t, r, name).String(), class)
		}
	}
	worst := want["worst"]
	if worst == "-" {
		worst = "unknown"
	}
	equal("worst", r.Worst().String(), worst)
	all := want["nvlink_groups"]
	if all == "all" {
		n, _ := strconv.Atoi(want["gpus"])
		var s []string
		for i := range n {
			s = append(s, strconv.Itoa(i))
		}
		all = strings.Join(s, ",")
	}
	equal("NVLink groups", groups(r), all)
	printed := func(s string) string {
		if s == "-" {
			return ""
		}
		return s
	}
	equal("CPUs of GPU0", r.Graph.Devices[0].CPUAffinity, printed(want["gpu0_cpu"]))
	equal("NUMA node of GPU0", r.Graph.Devices[0].NUMA, printed(want["gpu0_numa"]))
	equal("complete", string(r.Complete), want["complete"])
	if (r.Complete == foreign.Whole) != (want["complete"] == "yes") || r.Complete != foreign.Whole && !strings.Contains(fmt.Sprint(r.Warnings), "cut") {
		t.Errorf("complete %s, warnings %q", r.Complete, r.Warnings)
	}
}

func TestXMLCorpus(t *testing.T) {
	for id, want := range map[string]struct {
		gpus, full, worst, numa string
		complete                foreign.Completeness
		pairs, warning          string
	}{
		"x01": {"8", "unknown", "unknown", "0", foreign.Whole, "", "template"},
		"x02": {"8", "unknown", "unknown", "1", foreign.Whole, "", "template"}, // bus id 0001 is on the second processor
		"x03": {"8", "unknown", "unknown", "0", foreign.Whole, "", "template"},
		"x04": {"2", "yes", "NV12", "0", foreign.Whole, "0-1=NV12", ""},
		"x05": {"4", "no", "XGMI", "0", foreign.Whole, "0-1=XGMI 0-3=XGMI", ""},
		"x06": {"3", "no", "SYS", "0", foreign.Whole, "0-1=SYS 1-2=PHB", ""},
		"x07": {"8", "no", "SYS", "1", foreign.Whole, "0-1=XGMI 0-4=XGMI 0-6=XGMI 1-7=XGMI 0-7=SYS", ""},
		"x08": {"8", "yes", "NV18", "0", foreign.Whole, "0-1=NV18 0-7=NV18 3-4=NV18", ""},
		"x09": {"3", "unknown", "NV18", "0", foreign.Cut, "0-1=NV18 0-2=NV18 1-2=NV18", "cut"},
		"x10": {"1", "unknown", "unknown", "0", foreign.Cut, "", "cut"},
		"x11": {"1", "unknown", "unknown", "", foreign.Whole, "", ""},
		"x12": {"0", "unknown", "unknown", "", foreign.Whole, "", "which of its PCI devices are GPUs"},
		"x13": {"4", "no", "SYS", "0", foreign.Whole, "0-1=NV12 2-3=NV12 0-2=SYS", ""},
		"x14": {"0", "unknown", "unknown", "", foreign.Whole, "", "which of its PCI devices are GPUs"},
	} {
		t.Run(id, func(t *testing.T) {
			rows := index(t, "nccl-xml")
			row := rows[slices.IndexFunc(rows, func(r map[string]string) bool { return r["id"] == id })]
			r := read(t, text(t, "nccl-xml", row["file"]))
			format := foreign.NCCLXML
			if strings.Contains(row["kind"], "RCCL") {
				format = foreign.RCCLXML
			}
			got := []string{r.Format(), strconv.Itoa(len(r.Graph.Devices)), r.FullNVLink().String(), r.Worst().String(), string(r.Complete)}
			if !slices.Equal(got, []string{format, want.gpus, want.full, want.worst, string(want.complete)}) {
				t.Errorf("got %v, want %v", got, want)
			}
			if whole := row["well_formed"] == "yes"; whole != (r.Complete == foreign.Whole) {
				t.Errorf("complete %s, well formed %s", r.Complete, row["well_formed"])
			}
			if len(r.Graph.Devices) > 0 && r.Graph.Devices[0].NUMA != want.numa {
				t.Errorf("GPU0 on NUMA node %q, want %q", r.Graph.Devices[0].NUMA, want.numa)
			}
			for _, p := range strings.Fields(want.pairs) {
				name, class, _ := strings.Cut(p, "=")
				if got := pair(t, r, name).String(); got != class {
					t.Errorf("pair %s is %s, want %s", name, got, class)
				}
			}
			if w := strings.Join(r.Warnings, "\n"); want.warning == "" && strings.Contains(w, "XML") || !strings.Contains(w, want.warning) {
				t.Errorf("warnings %q, want %q", w, want.warning)
			}
		})
	}
}

func TestXGMICounts(t *testing.T) {
	r := read(t, text(t, "nccl-xml", "x07-rccl-8p1h-8gpu-xgmi-partial.xml"))
	pairs := 0
	for a := range r.Graph.Links {
		for b := range a {
			if r.Graph.Links[a][b].Class == topology.XGMI {
				pairs++
			}
		}
	}
	if pairs != 12 || pair(t, r, "0-1").Count != 4 || pair(t, r, "0-4").Count != 2 || pair(t, r, "0-6").Count != 1 {
		t.Errorf("%d pairs, links %v", pairs, r.Graph.Links)
	}
}

func TestOtherCorpus(t *testing.T) {
	row := map[string]map[string]string{}
	for _, r := range index(t, "other") {
		row[r["id"]] = r
	}
	every := func(class string) func(*testing.T, foreign.Reading) {
		return func(t *testing.T, r foreign.Reading) {
			for a, l := range r.Graph.Links {
				for b := range l {
					if a != b && l[b].String() != class {
						t.Errorf("pair %d-%d is %s, want %s", a, b, l[b], class)
					}
				}
			}
			if r.Worst().String() != class || r.FullNVLink() == topology.Yes {
				t.Errorf("worst %s, full NVLink %s", r.Worst(), r.FullNVLink())
			}
		}
	}
	access := func(status topology.Status, p2p topology.P2P) func(*testing.T, foreign.Reading) {
		return func(t *testing.T, r foreign.Reading) {
			for a, l := range r.Graph.Peers {
				for b, p := range l {
					if a != b && p != (topology.Peer{Any: status}) {
						t.Errorf("access %d to %d is %+v, want %s", a, b, p, status)
					}
				}
			}
			if r.Graph.P2P != p2p || r.Worst() != (topology.Link{}) || r.FullNVLink() != topology.NotKnown {
				t.Errorf("P2P %s, worst %s, full NVLink %s", r.Graph.P2P, r.Worst(), r.FullNVLink())
			}
		}
	}
	numa := func(want ...string) func(*testing.T, foreign.Reading) {
		return func(t *testing.T, r foreign.Reading) {
			every("XGMI")(t, r)
			for i, d := range r.Graph.Devices {
				if d.NUMA != want[i] {
					t.Errorf("GPU %d on NUMA node %q, want %q", i, d.NUMA, want[i])
				}
			}
		}
	}
	for id, check := range map[string]func(*testing.T, foreign.Reading){
		"o01": func(t *testing.T, r foreign.Reading) {
			if !slices.Equal(r.NVLinks, []int{4, 4, 0}) || r.Worst() != (topology.Link{}) || r.FullNVLink() != topology.No {
				t.Errorf("NVLinks %v, worst %s, full NVLink %s", r.NVLinks, r.Worst(), r.FullNVLink())
			}
			if d := r.Graph.Devices[1]; d.Name != "NVIDIA RTX A6000" || d.UUID != "GPU-00000000-0000-0000-0000-000000000001" {
				t.Errorf("GPU 1 is %+v", d)
			}
		},
		"o02": access(topology.StatusOK, topology.P2PReported),
		"o03": access(topology.StatusGNS, topology.P2PNone),
		"o04": access(topology.StatusOK, topology.P2PReported),
		"o05": func(t *testing.T, r foreign.Reading) {
			every("HCCS")(t, r)
			if d := r.Graph.Devices; d[0].CPUAffinity != "144-167" || d[7].CPUAffinity != "48-71" {
				t.Errorf("CPUs of NPU0 %q, NPU7 %q", d[0].CPUAffinity, d[7].CPUAffinity)
			}
		},
		"o06": numa("0", "1", "2", "3"),
		"o07": numa("0", "1", "2", "3"),
		"o08": every("XGMI"),
		"o09": every("PCIE"),
		"o10": func(t *testing.T, r foreign.Reading) {
			every("XGMI")(t, r)
			if d := r.Graph.Devices; d[0].PCIBusID != "0000:0d:00.0" || d[7].PCIBusID != "0000:f4:00.0" || d[7].Index != 7 {
				t.Errorf("devices %+v", d)
			}
		},
	} {
		t.Run(id, func(t *testing.T) {
			r := read(t, text(t, "other", row[id]["file"]))
			gpus, _, _ := strings.Cut(row[id]["gpus"], " ")
			if format, _ := strings.CutSuffix(row[id]["kind"], " r"); r.Format() != strings.TrimSuffix(format, " rw") || strconv.Itoa(len(r.Graph.Devices)) != gpus || r.Complete != foreign.Whole {
				t.Errorf("format %s, %d GPUs, complete %s; want %s, %s", r.Format(), len(r.Graph.Devices), r.Complete, row[id]["kind"], gpus)
			}
			check(t, r)
		})
	}
	if len(row) != 10 {
		t.Errorf("%d files, 10 are tested", len(row))
	}
}
