package foreign_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// seeds are short texts of every format, beside those of the corpus.
var seeds = []string{
	"\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV4\tPXB\t0-63\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t\t0\t\tN/A\nNIC0\tPXB\tSYS\t X \n",
	" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tGNS\tX\t\n",
	"GPU 0: NVIDIA A40 (UUID: GPU-0)\n\t Link 0: 14.062 GB/s\n\t Link 1: <inactive>\nNVML: Unable to retrieve NVLink information as all links are inActive\n",
	"= Hops between two GPUs =\n       GPU0 GPU1\nGPU0   0 1\nGPU1   1 0\n= Link Type between two GPUs =\n       GPU0 GPU1\nGPU0   0 XGMI\nGPU1   XGMI 0\nGPU[0]\t\t: (Topology) Numa Node: 0\n",
	"LINK TYPE TABLE:\n             0000:0d:00.0 0000:26:00.0\n0000:0d:00.0 SELF XGMI\n0000:26:00.0 XGMI SELF\nACCESS TABLE:\n             0000:0d:00.0 0000:26:00.0\n0000:0d:00.0 ENABLED ENABLED\n0000:26:00.0 ENABLED ENABLED\n",
	"\tNPU0 NPU1 CPU Affinity\nNPU0 X HCCS 0-23\nNPU1 HCCS X 24-47\n",
	`<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x030200"><gpu dev="0" sm="90"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu></pci></cpu></system>`,
	"GPU0 X SYS 0-23 0 GPU1 SYS X 24-47 1 Legend: X = Self",
	`{"card0": {"(Topology) Numa Node": "0"}, "card1": {}, "system": {"(Topology) Link type between DRM devices 0 and 1": "XGMI", "(Topology) Link accessibility between DRM devices 0 and 1": "True"}}`,
	"<gpu id=\"00000000:1B:00.0\">\n<product_name>NVIDIA L40S</product_name><uuid>GPU-0</uuid><mig_mode><current_mig>Enabled</current_mig></mig_mode></gpu>\n</nvidia_smi_log>",
	"CP 0GPU1XNV1",
	"\x1b[4mGPU0[0m\t&amp;lt;\\t| > \\u001b[1mGPU1",
}

func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	files, err := filepath.Glob(filepath.Join(corpus, "*", "*"))
	if err != nil || len(files) < 70 {
		f.Fatalf("%d files in %s: %v", len(files), corpus, err)
	}
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && len(b) < 6000 && !strings.HasSuffix(name, ".tsv") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := foreign.ReadAll(b)
		again, errAgain := foreign.ReadAll(b)
		if diff := cmp.Diff(all, again, cmpopts.IgnoreUnexported(foreign.Reading{}), cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" || (err == nil) != (errAgain == nil) {
			t.Fatalf("two readings differ: %s %v %v", diff, err, errAgain)
		}
		var e *foreign.Error
		if err != nil {
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Line > 1+strings.Count(string(b), "\n") || strings.ContainsAny(e.Text, "\n") {
				t.Fatalf("error %#v", err)
			}
			return
		}
		if len(all) == 0 {
			t.Fatal("nothing read and no error")
		}
		for _, r := range all {
			checkSound(t, r)
		}
	})
}

// checkSound checks what holds for every reading.
func checkSound(t *testing.T, r foreign.Reading) {
	t.Helper()
	n := len(r.Graph.Devices)
	seen := map[int]bool{}
	for _, d := range r.Graph.Devices {
		if seen[d.Index] {
			t.Fatalf("two devices with the number %d", d.Index)
		}
		seen[d.Index] = true
	}
	for _, m := range [][][]topology.Link{r.Graph.Links, r.Links(), r.Graph.PCIe} {
		if m != nil && len(m) != n {
			t.Fatalf("%d rows of links for %d devices", len(m), n)
		}
		for _, row := range m {
			if len(row) != n {
				t.Fatalf("%d links in a row for %d devices", len(row), n)
			}
		}
	}
	if r.Graph.Peers != nil && len(r.Graph.Peers) != n || r.NVLinks != nil && len(r.NVLinks) != n {
		t.Fatalf("%d rows of peers, %d numbers of NVLinks for %d devices", len(r.Graph.Peers), len(r.NVLinks), n)
	}
	if len(r.Formats) == 0 || r.Complete == "" {
		t.Fatalf("formats %v, complete %q", r.Formats, r.Complete)
	}
	r.FullNVLink()
	r.Worst()
	r.NVLinkGroups()
}

func BenchmarkRead16(b *testing.B) {
	var s strings.Builder
	for i := range 16 {
		s.WriteString("\tGPU" + strconv.Itoa(i))
	}
	for i := range 10 {
		s.WriteString("\tNIC" + strconv.Itoa(i))
	}
	s.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for i := range 26 {
		s.WriteString(map[bool]string{true: "GPU" + strconv.Itoa(i), false: "NIC" + strconv.Itoa(i-16)}[i < 16])
		for j := range 26 {
			s.WriteString(map[bool]string{true: "\t X ", false: "\tNV18"}[i == j])
		}
		if i < 16 {
			s.WriteString("\t0-55,112-167\t0\t\tN/A")
		}
		s.WriteString("\n")
	}
	text := []byte(s.String())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := foreign.Read(text)
		if err != nil || len(r.Graph.Devices) != 16 {
			b.Fatal(err, len(r.Graph.Devices))
		}
	}
}

func BenchmarkReadXML(b *testing.B) {
	text := text(b, "nccl-xml", "x08-ibm-vpc-8xH100-nvswitch.xml")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := foreign.Read(text); err != nil {
			b.Fatal(err)
		}
	}
}
