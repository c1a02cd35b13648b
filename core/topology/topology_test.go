package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology"
)

// matrix reads rows of links such as "X NV4 PIX"; X is the diagonal.
func matrix(t *testing.T, rows ...string) [][]topology.Link {
	t.Helper()
	links := make([][]topology.Link, len(rows))
	for a, row := range rows {
		for _, cell := range strings.Fields(row) {
			var l topology.Link
			if cell != "X" {
				if err := l.UnmarshalText([]byte(cell)); err != nil {
					t.Fatal(err)
				}
			}
			links[a] = append(links[a], l)
		}
	}
	return links
}

func TestWorstAndFullNVLink(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []string
		worst string
		full  topology.Answer
	}{
		{"nobody", nil, "unknown", topology.NotKnown},
		{"one device", []string{"X"}, "unknown", topology.NotKnown},
		{"all NVLink", []string{"X NV4 NV4", "NV4 X NV4", "NV4 NV4 X"}, "NV4", topology.Yes},
		{"fewer links are worse", []string{"X NV4 NV2", "NV4 X NV4", "NV2 NV4 X"}, "NV2", topology.Yes},
		{"one pair on PCIe", []string{"X NV4 PIX", "NV4 X NV4", "PIX NV4 X"}, "PIX", topology.No},
		{"worst of PCIe", []string{"X PIX NODE", "PIX X PHB", "NODE PHB X"}, "NODE", topology.No},
		{"across sockets", []string{"X SYS", "SYS X"}, "SYS", topology.No},
		{"XGMI is not NVLink", []string{"X XGMI", "XGMI X"}, "XGMI", topology.No},
		{"one direction only", []string{"X NV4", "SYS X"}, "SYS", topology.No},
		{"unknown pair", []string{"X NV4 unknown", "NV4 X NV4", "unknown NV4 X"}, "unknown", topology.NotKnown},
		{"a known no beats unknown", []string{"X unknown PIX", "unknown X NV4", "PIX NV4 X"}, "unknown", topology.No},
		{"missing pair", []string{"X NV4 NV4", "NV4 X NV4", "NV4"}, "unknown", topology.NotKnown},
		{"missing row", []string{"X NV4", ""}, "unknown", topology.NotKnown},
		{"missing pair and a known no", []string{"X PIX", ""}, "unknown", topology.No},
	} {
		t.Run(c.name, func(t *testing.T) {
			links := matrix(t, c.rows...)
			if got := topology.Worst(links).String(); got != c.worst {
				t.Errorf("worst link %s, want %s", got, c.worst)
			}
			if got := topology.FullNVLink(links); got != c.full {
				t.Errorf("full NVLink %s, want %s", got, c.full)
			}
		})
	}
}

var byspeed = []string{"NV18", "NV4", "NV1", "NV", "XGMI", "HCCS", "HOST", "PIX", "PXB", "PHB", "NODE", "SYS", "PCIE", "unknown"}

func TestSlowerIsTheDocumentedOrder(t *testing.T) {
	for i, a := range byspeed {
		for j, b := range byspeed {
			la, lb := matrix(t, a)[0][0], matrix(t, b)[0][0]
			if got := la.Slower(lb); got != (i > j) {
				t.Errorf("%s slower than %s: %v", a, b, got)
			}
		}
	}
}

func TestLinkTextRoundTrip(t *testing.T) {
	for _, text := range byspeed {
		var l topology.Link
		if err := l.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if back, err := l.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%s is written %q, %v", text, back, err)
		}
	}
	for _, text := range []string{"nv4", "NV0", "NV-1", "NV+4", "NV4x", "NV99999999999", "PCI", "X", " PIX"} {
		l := topology.Link{Class: topology.PIX}
		if err := l.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is read as %s, error %v", text, l, err)
		}
		if l.Class != topology.PIX {
			t.Errorf("a failed read of %q changed the value", text)
		}
	}
}

func TestPresets(t *testing.T) {
	want := map[string]string{ // GPUs, worst, full NVLink, multicast, P2P, capability
		"16xV100":       "16 NV6 yes no reported 7.0",
		"2xBridge":      "2 NV4 yes no reported 8.6",
		"2xPCIe":        "2 PHB no no unknown 12.0",
		"4xA100":        "4 NV4 yes no reported 8.0",
		"4xNVLinkPairs": "4 SYS no no unknown 8.0",
		"4xPCIe":        "4 NODE no no unknown 12.0",
		"8x4090":        "8 SYS no no unknown 8.9",
		"8x910B":        "8 HCCS no no reported ",
		"8xA100":        "8 NV12 yes no reported 8.0",
		"8xB200":        "8 NV18 yes yes reported 10.0",
		"8xB300":        "8 NV18 yes yes reported 10.3",
		"8xH200":        "8 NV18 yes yes reported 9.0",
		"8xL40S":        "8 SYS no no unknown 8.9",
		"8xMI300X":      "8 XGMI no no reported ",
		"8xNVLinkPairs": "8 SYS no no unknown 9.0",
		"8xNVSwitch":    "8 NV18 yes yes reported 9.0",
		"8xPCIe":        "8 SYS no no unknown 12.0",
		"DGX-1":         "8 SYS no no unknown 7.0",
		"p3.8xlarge":    "4 NV1 yes no reported 7.0",
	}
	seen := map[string]string{}
	for _, p := range topology.Presets() {
		for _, name := range append([]string{p.Name, strings.ToUpper(p.Name), strings.ReplaceAll(p.Name, "x", "×")}, p.Aliases...) {
			g, err := topology.Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%d %s %s %s %s %s", len(g.Devices), topology.Worst(g.Links), topology.FullNVLink(g.Links), g.Multicast, g.P2P, g.Devices[0].Capability)
			if got != want[p.Name] {
				t.Errorf("%s (%s): got %q, want %q", p.Name, name, got, want[p.Name])
			}
			for a, d := range g.Devices {
				if d.Index != a || d.NUMA == "" || d.Name == "" || g.Links[a][a] != (topology.Link{}) {
					t.Errorf("%s: device %d is %+v, linked to itself as %s", name, a, d, g.Links[a][a])
				}
				for b := range g.Devices {
					if g.Links[a][b] != g.Links[b][a] {
						t.Errorf("%s: link %d-%d is %s one way and %s the other", name, a, b, g.Links[a][b], g.Links[b][a])
					}
				}
			}
		}
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			if key := strings.ToLower(name); seen[key] != "" {
				t.Errorf("%s and %s share the name %q", seen[key], p.Name, name)
			} else {
				seen[key] = p.Name
			}
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	if !slices.IsSortedFunc(topology.Presets(), func(a, b topology.PresetMachine) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the presets are not sorted")
	}
	_, err := topology.Preset("9xPCIe")
	if err == nil || !strings.Contains(err.Error(), "8xPCIe") || !strings.Contains(err.Error(), "DGX-1") {
		t.Errorf("an unknown preset gives error %v, want the names that exist", err)
	}
}

// TestCubeMesh holds the links of a DGX-1: six NVLinks of every GPU, two full quads.
func TestCubeMesh(t *testing.T) {
	g, _ := topology.Preset("dgx-1")
	for a, row := range g.Links {
		n := 0
		for _, l := range row {
			n += l.Count
		}
		if n != 6 {
			t.Errorf("GPU %d has %d NVLinks", a, n)
		}
	}
	if diff := cmp.Diff([][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, topology.Groups(g.Links, topology.NVLink)); diff != "" {
		t.Error(diff)
	}
}

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []string
		want [][]int
	}{
		{"nobody", nil, nil},
		{"no NVLink", []string{"X SYS", "SYS X"}, nil},
		{"a chain takes the first pair", []string{"X NV1 SYS", "NV1 X NV1", "SYS NV1 X"}, [][]int{{0, 1}}},
		{"larger before earlier", []string{
			"X NV1 SYS SYS SYS", "NV1 X NV1 NV1 SYS", "SYS NV1 X NV1 SYS", "SYS NV1 NV1 X SYS", "SYS SYS SYS SYS X",
		}, [][]int{{1, 2, 3}}},
		{"one direction is no link", []string{"X NV1", "SYS X"}, nil},
		{"an unknown pair might extend it", []string{"X NV1 NV1", "NV1 X unknown", "NV1 unknown X"}, nil},
		{"an unknown pair cannot extend it", []string{"X NV1 SYS", "NV1 X unknown", "SYS unknown X"}, [][]int{{0, 1}}},
	} {
		if diff := cmp.Diff(c.want, topology.Groups(matrix(t, c.rows...), topology.NVLink)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAccess(t *testing.T) {
	ok, refused := topology.Peer{Read: topology.StatusOK}, topology.Peer{Read: topology.StatusOK, Write: topology.StatusCNS}
	for _, c := range []struct {
		name string
		peer topology.Peer
		want topology.P2P
	}{
		{"nothing said", topology.Peer{}, topology.P2PUnknown},
		{"read", ok, topology.P2PReported},
		{"write refused", refused, topology.P2PNone},
		{"not told which", topology.Peer{Any: topology.StatusGNS}, topology.P2PNone},
		{"the driver does not know", topology.Peer{Read: topology.StatusUnknown}, topology.P2PUnknown},
		{"atomics and NVLink are no access", topology.Peer{NVLink: topology.StatusNS, Atomics: topology.StatusNS, PCI: topology.StatusNS}, topology.P2PUnknown},
	} {
		if got := c.peer.Access(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	peers := [][]topology.Peer{{{}, ok, ok}, {ok, {}, refused}, {ok, ok, {}}}
	g := topology.Uniform(3, topology.Link{Class: topology.PHB}, func(i int) topology.Device { return topology.Device{Index: i} })
	g.Peers, g.P2P = peers, topology.Access(peers, 3)
	if g.P2P != topology.P2PNone {
		t.Errorf("one refused pair of three: %s", g.P2P)
	}
	s, err := g.Sub([]int{0, 2})
	if err != nil || s.P2P != topology.P2PReported || len(s.Peers) != 2 {
		t.Errorf("two devices of it: P2P %s, peers %v, %v", s.P2P, s.Peers, err)
	}
	if got := topology.Access(peers[:1], 3); got != topology.P2PUnknown {
		t.Errorf("rows that are missing: %s", got)
	}
}

func TestPresetIsFresh(t *testing.T) {
	a, _ := topology.Preset("8xNVSwitch")
	a.Links[0][1] = topology.Link{}
	if b, _ := topology.Preset("8xNVSwitch"); topology.FullNVLink(b.Links) != topology.Yes {
		t.Error("a change of one copy shows in the next")
	}
}

func TestSub(t *testing.T) {
	g, _ := topology.Preset("8xPCIe")
	g.Notes = []string{"kept"}
	s, err := g.Sub([]int{5, 0, 4})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(matrix(t, "X SYS NODE", "SYS X SYS", "NODE SYS X"), s.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if got := []int{s.Devices[0].Index, s.Devices[1].Index, s.Devices[2].Index}; !slices.Equal(got, []int{5, 0, 4}) {
		t.Errorf("devices %v", got)
	}
	if len(s.Notes) != 1 || s.Multicast != topology.No {
		t.Errorf("what holds for the whole machine was lost: %+v", s)
	}
	for _, bad := range [][]int{{8}, {-1}, {0, 9}, {9, 0}} {
		if _, err := g.Sub(bad); err == nil || !strings.Contains(err.Error(), "8 devices") {
			t.Errorf("devices %v: error %v, want the number of devices", bad, err)
		}
	}
}

// TestSubOfShortMatrix takes devices of a graph whose reader found fewer links than devices.
func TestSubOfShortMatrix(t *testing.T) {
	g := topology.Uniform(3, topology.Link{Class: topology.PIX}, func(i int) topology.Device { return topology.Device{Index: i} })
	g.Links = g.Links[:1]
	s, err := g.Sub([]int{0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(matrix(t, "X PIX", "unknown X"), s.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
