package backend

import (
	"slices"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// TestWindowsOfUnknownCapability: of a foreign machine whose capability is not known, the byte counts that the windows
// hold for every capability are accepted; a capability without a window leaves all of it open, and so does a machine
// that can be asked.
func TestWindowsOfUnknownCapability(t *testing.T) {
	hopper := Window{Capability: "9.x", Range: Range{Min: 1, Max: 100}}
	older := Window{Capability: "8.9-", Range: Range{Min: 10, Max: 200}, Unmeasured: true}
	newer := Window{Capability: "10.0+", Range: Range{Min: 1, Max: 50}}
	one := Window{Capability: "9.0", Range: Range{Min: 1, Max: 100}}
	eager := Window{Capability: "9.x", Mode: Eager, Range: Range{Min: 1, Max: 20}}
	captured := Window{Capability: "9.x", Mode: Captured, Range: Range{Min: 1, Max: 100}}
	for name, c := range map[string]struct {
		windows    []Window
		capability string
		live       bool
		more       Requirements
		want       Verdict
	}{
		"all covered":      {windows: []Window{hopper, older, newer}, want: Accepted(Range{Min: 10, Max: 50, Unmeasured: true})},
		"of the mode":      {windows: []Window{eager, captured, older, newer}, want: Accepted(Range{Min: 10, Max: 20, Unmeasured: true})},
		"known":            {windows: []Window{hopper, older, newer}, capability: "9.0", want: Accepted(Range{Min: 1, Max: 100})},
		"a gap":            {windows: []Window{hopper, older}, want: Verdict{Kind: Unknown}},
		"9.1 has none":     {windows: []Window{one, older, newer}, want: Verdict{Kind: Unknown}},
		"no common bytes":  {windows: []Window{{Capability: "9.x", Range: Range{Min: 60, Max: 100}}, older, newer}, want: Verdict{Kind: Unknown}},
		"not a number":     {windows: []Window{hopper, older, newer, {Capability: "gfx942", Range: Range{Min: 1, Max: 9}}}, want: Verdict{Kind: Unknown}},
		"can be asked":     {windows: []Window{hopper, older, newer}, live: true, want: Verdict{Kind: Unknown}},
		"of a list":        {windows: []Window{hopper, older, newer}, more: Requirements{Capabilities: []string{"9.0"}}, want: Verdict{Kind: Unknown}},
		"declined already": {windows: []Window{hopper, older, newer}, more: Requirements{Ops: []collective.Op{collective.Max}}, want: Verdict{Kind: Decline}},
	} {
		t.Run(name, func(t *testing.T) {
			g := topology.Uniform(4, topology.Link{Class: topology.NVLink, Count: 4}, func(i int) topology.Device {
				return topology.Device{Index: i, Vendor: "nvidia", Capability: c.capability}
			})
			req := Request{Group: collective.GPUGroup("g", g, 1), Class: collective.Class{Memory: collective.CUDA}, Hypothetical: !c.live}
			q := c.more
			q.Windows = c.windows
			got := q.Check(req)
			if got.Kind != c.want.Kind || c.want.Kind == Accept && got.String() != c.want.String() {
				t.Errorf("%s, want %s", got, c.want)
			}
			if req.Group.Ranks[0].Device.Capability != c.capability {
				t.Error("the question was changed")
			}
			if capabilities := capabilities(c.windows); !slices.IsSortedFunc(capabilities, CompareVersions) {
				t.Errorf("capabilities %v are not in order", capabilities)
			}
		})
	}
}
