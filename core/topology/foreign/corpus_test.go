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

// corpus is the folder of real texts beside the repository.
const corpus = "../../../../shared/corpus"

// index reads the table of a part of the corpus: one map of columns for each file.
func index(t testing.TB, part string) []map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, part, "index.tsv"))
	if err != nil {
		t.Skipf("the corpus is not beside the repository: %v", err)
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
