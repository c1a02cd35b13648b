package topology

import (
	"fmt"
	"iter"
)

// Device is one GPU. Its identity is the UUID or the PCI bus id, never the index.
type Device struct {
	Index       int
	UUID        string // "" if not known
	PCIBusID    string // such as "0000:17:00.0"; "" if not known
	Name        string
	Vendor      string // "nvidia", "amd" or "huawei"; "" if not known
	Capability  string // CUDA compute capability such as "9.0", or AMD's architecture such as "gfx942"; "" if not known
	NUMA        string // NUMA node as printed by its source; "" if absent
	CPUAffinity string // CPUs near it, as printed by its source; "" if absent

	MIG []string // UUIDs of its parts, if it is divided and they are known
}

// Same reports whether two devices of one host are known to be one.
func (d Device) Same(e Device) bool {
	if d.UUID != "" && e.UUID != "" {
		return d.UUID == e.UUID
	}
	return d.PCIBusID != "" && d.PCIBusID == e.PCIBusID
}

// Host is the processor side of a machine.
type Host struct {
	CPU       string // model name; "" if not known
	Cores     int    // cores that this process may use
	NUMANodes int    // 0 if not known
}

// Graph is the devices of one host and the link between every two.
type Graph struct {
	Host    Host
	Devices []Device
	Links   [][]Link // Links[a][b] by position in Devices; the diagonal is unused
	PCIe    [][]Link // the path over PCIe between two devices, whether or not they have a faster link; nil if not known
	Peers   [][]Peer // Peers[a][b] is what the driver says of a's access to b; nil if not known

	Complete  Answer   // whether Devices are known to be all GPUs of the host; none found is not "none" unless this is yes
	P2P       P2P      // between every two devices; what Access says of Peers, or more
	Multicast Answer   // NVLink multicast
	Notes     []string // what could not be probed and why
}

// Pairs yields the link of every ordered pair of n different members; one that links does not hold is unknown.
func Pairs(links [][]Link, n int) iter.Seq[Link] {
	return func(yield func(Link) bool) {
		for a := range n {
			for b := range n {
				if a != b && !yield(at(links, a, b)) {
					return
				}
			}
		}
	}
}

func at(links [][]Link, a, b int) Link {
	if a >= len(links) || b >= len(links[a]) {
		return Link{}
	}
	return links[a][b]
}

// Worst is the slowest link of a square matrix, an unknown one before all others; the zero Link (unknown) if it has
// fewer than two rows.
func Worst(links [][]Link) Link {
	var worst Link
	first := true
	for l := range Pairs(links, len(links)) {
		if first || l.Slower(worst) {
			worst, first = l, false
		}
	}
	return worst
}

// FullNVLink says whether every pair is connected by NVLink: no if a pair is known not to be, unknown if a pair is
// not known or there is no pair.
func FullNVLink(links [][]Link) Answer {
	if len(links) < 2 {
		return NotKnown
	}
	answer := Yes
	for l := range Pairs(links, len(links)) {
		switch l.Class {
		case NVLink:
		case Unknown:
			answer = NotKnown
		default:
			return No
		}
	}
	return answer
}

// AnyNVLink says whether a pair is connected by NVLink: unknown if none is known to be and a pair is not known, or there
// is no pair.
func AnyNVLink(links [][]Link) Answer {
	if len(links) < 2 {
		return NotKnown
	}
	answer := No
	for l := range Pairs(links, len(links)) {
		switch l.Class {
		case NVLink:
			return Yes
		case Unknown:
			answer = NotKnown
		}
	}
	return answer
}

// Sub is the graph of the devices at the given positions, in that order.
func (g Graph) Sub(positions []int) (Graph, error) {
	s := g
	s.Devices = make([]Device, len(positions))
	for i, p := range positions {
		if p < 0 || p >= len(g.Devices) {
			return Graph{}, fmt.Errorf("no device %d: the topology has %d devices", p, len(g.Devices))
		}
		s.Devices[i] = g.Devices[p]
	}
	s.Links = among(positions, func(p, q int) Link { return at(g.Links, p, q) })
	if g.PCIe != nil {
		s.PCIe = among(positions, func(p, q int) Link { return at(g.PCIe, p, q) })
	}
	if g.Peers != nil {
		s.Peers = among(positions, func(p, q int) Peer { return peerAt(g.Peers, p, q) })
		if g.P2P == Access(g.Peers, len(g.Devices)) { // else it holds more than the driver's word
			s.P2P = Access(s.Peers, len(positions))
		}
	}
	return s, nil
}

// among is the square matrix of what holds between every two of the positions; the diagonal is left out.
func among[T any](positions []int, of func(p, q int) T) [][]T {
	m := make([][]T, len(positions))
	for i, p := range positions {
		m[i] = make([]T, len(positions))
		for j, q := range positions {
			if p != q {
				m[i][j] = of(p, q)
			}
		}
	}
	return m
}

// Uniform is a graph of n devices with the same link between every two.
func Uniform(n int, link Link, device func(i int) Device) Graph {
	g := Graph{Devices: make([]Device, n), Links: make([][]Link, n)}
	for i := range n {
		g.Devices[i] = device(i)
		g.Links[i] = make([]Link, n)
		for j := range n {
			if i != j {
				g.Links[i][j] = link
			}
		}
	}
	return g
}
