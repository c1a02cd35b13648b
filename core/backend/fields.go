package backend

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// Field is one requirement as it is shown to people.
type Field struct {
	Name  string   // as in the contract, such as world_sizes
	Needs []string // in words, a line each; none requires nothing
}

// Fields lists every requirement, whether or not the backend has it, in the contract's order.
func (q Requirements) Fields() []Field {
	words := func(l topology.Class, _ int) string { return l.Words() }
	library := func(l collective.Library, _ int) string {
		return l.Name + lo.Ternary(l.Version == "", "", " "+l.Version+" or newer")
	}
	say := func(needed bool, format string, args ...any) []string {
		if !needed {
			return nil
		}
		return []string{fmt.Sprintf(format, args...)}
	}
	return []Field{
		{"world_sizes", say(len(q.WorldSizes) > 0, "%s ranks", spans(q.WorldSizes))},
		{"memories", lo.Compact([]string{list(q.Memories)})},
		{"data_types", lo.Compact([]string{list(q.DataTypes)})},
		{"ops", lo.Compact([]string{list(q.Ops)})},
		{"scope", lo.Compact([]string{string(q.Scope)})},
		{"links", say(len(q.Links) > 0, "%s on every pair", strings.Join(lo.Map(q.Links, words), " or "))},
		{"links_from", say(q.LinksFrom > 2, "links of groups of %d or more ranks only", q.LinksFrom)},
		{"p2p", lo.Compact([]string{string(q.P2P)})},
		{"multicast", say(q.Multicast, "NVLink multicast")},
		{"capabilities", lo.Compact([]string{list(q.Capabilities)})},
		{"platforms", lo.Compact([]string{list(q.Platforms)})},
		{"driver", say(q.Driver != "", "%s or newer", q.Driver)},
		{"libraries", lo.Map(q.Libraries, library)},
		{"windows", lo.Map(q.Windows, func(w Window, _ int) string { return w.describe() })},
		{"multiple", say(q.Multiple > 1, "multiples of %d B", q.Multiple)},
		{"alignment", say(q.Alignment > 1, "buffers that begin at a multiple of %d B", q.Alignment)},
		{"placement", lo.Compact([]string{string(q.Placement)})},
		{"modes", lo.Compact([]string{list(q.Modes)})},
		{"in_flight", say(q.InFlight > 0, "at most %s of a group at once", Count(q.InFlight, "call"))},
		{"deterministic", say(q.Deterministic, "promises the same bits on every rank and in every run")},
		{"order", say(q.Order != "", "adds in %s order whatever the size", q.Order)},
		{"vendors", lo.Compact([]string{strings.Join(q.Vendors, " or ")})},
		{"registered", say(q.Registered, "buffers that the group allocated")},
		{"numa_nodes", say(q.NUMANodes > 1, "ranks bound to %s or more", Count(q.NUMANodes, "NUMA node"))},
	}
}
