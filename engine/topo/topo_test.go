package topo

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

func read(t *testing.T, text string) foreign.Reading {
	t.Helper()
	r, err := foreign.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const pairs = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\n" +
	"GPU0\t X \tNV12\tSYS\tPXB\t0-23\t0\nGPU1\tNV12\t X \tSYS\tPXB\t0-23\t0\nGPU2\tSYS\tSYS\t X \tSYS\t24-47\t1\nNIC0\tPXB\tPXB\tSYS\t X \n" +
	"nvidia-smi topo -p2p r\n\tGPU0\tGPU1\tGPU2\nGPU0\tX\tOK\tCNS\nGPU1\tOK\tX\tCNS\nGPU2\tCNS\tCNS\tX\n"

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, read(t, pairs)); err != nil {
		t.Fatal(err)
	}
	want := `nvidia-smi topo -m, nvidia-smi topo -p2p: 3 GPUs

      GPU0  GPU1  GPU2  CPUs   NUMA
GPU0  X     NV12  SYS   0-23   0
GPU1  NV12  X     SYS   0-23   0
GPU2  SYS   SYS   X     24-47  1

full NVLink:    no
NVLink groups:  {0,1}
worst link:     SYS
peer access:    none (read CNS in 4 of 6 directions; read OK in 2 of 6 directions)

warnings:
  - no peer-to-peer access (CNS) between GPU0-GPU2, GPU1-GPU2, GPU2-GPU0, GPU2-GPU1: `
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got[:min(len(got), len(want))]))
	}
}

func TestJSON(t *testing.T) {
	d := JSON(read(t, pairs))
	want := []Pair{{0, 1, "NV", 12}, {0, 2, "SYS", 0}, {1, 2, "SYS", 0}}
	if diff := cmp.Diff(want, d.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if d.Format != "nvidia-smi topo -m" || !d.Complete || d.FullNVLink != "no" || d.Worst != "SYS" || d.P2P != "none" || len(d.Peers) != 6 {
		t.Errorf("got %+v", d)
	}
	if diff := cmp.Diff([][]int{{0, 1}}, d.NVLinkGroups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]NIC{{"NIC0", "", []string{"PXB", "PXB", "SYS"}}}, d.NICs); diff != "" {
		t.Error(diff)
	}
	b, err := json.Marshal(JSON(foreign.Reading{Formats: []string{"x"}}))
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("an empty reading is written %s, %v", b, err)
	}
}

// TestJSONOrder has rows and columns in another order than the numbers.
func TestJSONOrder(t *testing.T) {
	d := JSON(read(t, "\tGPU2\tGPU0\tGPU1\nGPU2\tX\tPIX\tSYS\nGPU0\tPIX\tX\tNODE\nGPU1\tSYS\tNODE\tX\n"))
	var indices []int
	for _, dev := range d.Devices {
		indices = append(indices, dev.Index)
	}
	if !slices.Equal(indices, []int{0, 1, 2}) {
		t.Errorf("devices %v", indices)
	}
	if diff := cmp.Diff([]Pair{{0, 1, "NODE", 0}, {0, 2, "PIX", 0}, {1, 2, "SYS", 0}}, d.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// wellFormed reads XML to its end and returns its text.
func wellFormed(t *testing.T, b []byte) string {
	t.Helper()
	var text strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, b)
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(c)
			text.WriteByte(' ')
		}
	}
}

func TestSVG(t *testing.T) {
	for _, p := range topology.Presets() {
		g, _ := topology.Preset(p.Name)
		r := foreign.Reading{Formats: []string{p.Name}, Graph: g, Complete: foreign.Whole}
		r.Check()
		var b bytes.Buffer
		if err := SVG(&b, r); err != nil {
			t.Fatal(err)
		}
		text := wellFormed(t, b.Bytes())
		n := len(g.Devices)
		if got := strings.Count(b.String(), "<title>"); got != n*(n-1)/2 {
			t.Errorf("%s: %d links drawn, want %d", p.Name, got, n*(n-1)/2)
		}
		if got := strings.Count(text, " X "); got != n {
			t.Errorf("%s: %d cells of a device with itself, want %d", p.Name, got, n)
		}
		if !strings.Contains(text, "worst link "+r.Worst().String()) {
			t.Errorf("%s: the worst link is not there", p.Name)
		}
	}
}

var update = flag.Bool("update", false, "write the picture of the documentation")

// TestDocumentedPicture: the documentation shows what is drawn now.
func TestDocumentedPicture(t *testing.T) {
	const file = "../../docs/dgx-1.svg"
	g, err := topology.Preset("DGX-1")
	if err != nil {
		t.Fatal(err)
	}
	r := foreign.Reading{Formats: []string{"preset DGX-1"}, Graph: g, Complete: foreign.Whole}
	r.Check()
	var b bytes.Buffer
	if err := SVG(&b, r); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what is drawn (%v): go test ./engine/topo -run DocumentedPicture -update", file, err)
	}
}

// TestSVGOfAnything draws machines at the edges, with names that are markup.
func TestSVGOfAnything(t *testing.T) {
	g := topology.Uniform(1, topology.Link{}, func(int) topology.Device { return topology.Device{Name: "<b>&\"\x00\x1b", NUMA: "<0>"} })
	many := topology.Uniform(72, topology.Link{Class: topology.NVLink, Count: 18}, func(i int) topology.Device { return topology.Device{Index: i} })
	for name, r := range map[string]foreign.Reading{
		"no GPU":   {Formats: []string{"x"}, Warnings: []string{"a < b & c"}},
		"one":      {Formats: []string{"x"}, Graph: g},
		"72":       {Formats: []string{"x"}, Graph: many},
		"unknown":  read(t, " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"),
		"contrary": read(t, "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tSYS\tX\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := SVG(&b, r); err != nil {
				t.Fatal(err)
			}
			wellFormed(t, b.Bytes())
			if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
				t.Errorf("not numbers:\n%s", b.String())
			}
		})
	}
}
