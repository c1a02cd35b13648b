package foreign

import (
	"github.com/weir-project/weir/core/topology"
)

// figures reads the tables of rocm-smi and amd-smi beside that of the links. Weights and hops are not used: their
// meaning differs between versions.
func (b *builder) figures(t *table, k kind) {
	known := len(b.labels) > 0
	b.format(amdFormat(k))
	m := newMatrix(t)
	var at []int
	for _, d := range m.devices {
		at = append(at, b.device(d, known))
	}
	b.grow()
	if k != rocmKind+" access" && k != amdKind+" access" {
		return
	}
	if b.Graph.Peers == nil {
		b.Graph.Peers = [][]topology.Peer{}
		b.grow()
	}
	for i, from := range m.devices {
		for j := range m.devices {
			c, _ := m.cell(from, j)
			if i == j || at[i] < 0 || at[j] < 0 {
				continue
			}
			if status, ok := accessible[cellText(c)]; ok {
				set(&b.Graph.Peers[at[i]][at[j]], "", status)
			}
		}
	}
}
