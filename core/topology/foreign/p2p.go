package foreign

import (
	"github.com/weir-project/weir/core/topology"
)

// p2p reads a matrix of peer-to-peer access. option is that of `topo -p2p`, "" if the text does not tell it.
func (b *builder) p2p(t *table, option string) {
	known := len(b.labels) > 0
	b.format(TopoP2P)
	m := newMatrix(t)
	var at []int
	for _, d := range m.devices {
		i := b.device(d, known)
		if at = append(at, i); i < 0 {
			b.warn("`topo -p2p` shows %s, which the other matrix does not have: they are of different machines, or of other visible devices", d.name)
		}
	}
	if b.Graph.Peers == nil {
		b.Graph.Peers = [][]topology.Peer{}
	}
	b.grow()
	for i, from := range m.devices {
		for j := range m.devices {
			c, ok := m.cell(from, j)
			status, isStatus := statuses[cellText(c)]
			if i == j || !ok || !isStatus || at[i] < 0 || at[j] < 0 {
				continue
			}
			set(&b.Graph.Peers[at[i]][at[j]], option, status)
		}
	}
	if state, missing := m.complete(); state == Cut {
		if !known {
			b.Complete = Cut
		}
		b.warn("`topo -p2p` is cut: rows are missing or not whole (%s)", names(missing))
	}
}

// set notes a status. Of two for one capability the worse counts.
func set(p *topology.Peer, option string, s topology.Status) {
	worse := func(old *topology.Status) {
		if *old == "" || *old == topology.StatusOK {
			*old = s
		}
	}
	known := false
	for _, c := range option {
		switch c {
		case 'r':
			worse(&p.Read)
		case 'w':
			worse(&p.Write)
		case 'n':
			worse(&p.NVLink)
		case 'a':
			worse(&p.Atomics)
		case 'p':
			worse(&p.PCI)
		default:
			continue
		}
		known = true
	}
	if !known {
		worse(&p.Any)
	}
}
