package collective

import (
	"fmt"

	"github.com/weir-project/weir/core/topology"
)

// GPUGroup is the facts of a group with one rank for each device of t, in t's order, on a machine about which nothing
// else is known. With hosts above 1 it is as many such machines; how GPUs of different ones are linked, whether they
// reach each other and whether multicast spans them is not known then.
func GPUGroup(id string, t topology.Graph, hosts int) Group {
	per := len(t.Devices)
	g := Group{ID: id, Ranks: make([]Rank, per*hosts), Links: make([][]topology.Link, per*hosts), P2P: t.P2P, Multicast: t.Multicast}
	for a := range g.Ranks {
		g.Ranks[a].Device = &t.Devices[a%per]
		if hosts > 1 {
			g.Ranks[a].Host = fmt.Sprintf("host%d", a/per)
		}
		g.Links[a] = make([]topology.Link, per*hosts)
		for b := range g.Links[a] {
			if a != b && a/per == b/per {
				g.Links[a][b] = topology.At(t.Links, a%per, b%per)
			}
		}
	}
	if hosts > 1 {
		g.P2P, g.Multicast = topology.P2PUnknown, topology.NotKnown
	}
	return g
}
