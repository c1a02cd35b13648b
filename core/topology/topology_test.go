package topology_test

import (
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
	for name, want := range map[string]struct {
		worst      string
		full       topology.Answer
		multicast  topology.Answer
		p2p        topology.P2P
		capability string
	}{
		"8xPCIe":     {"SYS", topology.No, topology.No, topology.P2PUnknown, "12.0"},
		"8xNVSwitch": {"NV18", topology.Yes, topology.Yes, topology.P2PReported, "9.0"},
	} {
		g, err := topology.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Devices) != 8 || topology.Worst(g.Links).String() != want.worst || topology.FullNVLink(g.Links) != want.full ||
			g.Multicast != want.multicast || g.P2P != want.p2p {
			t.Errorf("%s: %d devices, worst %s, full NVLink %s, multicast %s, p2p %s", name, len(g.Devices),
				topology.Worst(g.Links), topology.FullNVLink(g.Links), g.Multicast, g.P2P)
		}
		for a, d := range g.Devices {
			if d.Index != a || d.Capability != want.capability {
				t.Errorf("%s: device %d is %+v", name, a, d)
			}
			for b := range g.Devices {
				if g.Links[a][b] != g.Links[b][a] {
					t.Errorf("%s: link %d-%d is %s one way and %s the other", name, a, b, g.Links[a][b], g.Links[b][a])
				}
			}
		}
		if !slices.Contains(topology.Presets(), name) {
			t.Errorf("%s is not listed in %v", name, topology.Presets())
		}
	}
	_, err := topology.Preset("9xPCIe")
	if err == nil || !strings.Contains(err.Error(), "8xPCIe") {
		t.Errorf("an unknown preset gives error %v, want the names that exist", err)
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
