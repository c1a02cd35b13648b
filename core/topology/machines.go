package topology

import (
	"strconv"
	"strings"
)

// The GPUs of presets.
var (
	v100       = Device{Name: "Tesla V100-SXM2-32GB", Capability: "7.0"}
	a100       = Device{Name: "NVIDIA A100-SXM4-80GB", Capability: "8.0"}
	rtx4090    = Device{Name: "NVIDIA GeForce RTX 4090", Capability: "8.9"}
	rtx5090    = Device{Name: "NVIDIA GeForce RTX 5090", Capability: "12.0"}
	rtxPro6000 = Device{Name: "NVIDIA RTX PRO 6000 Blackwell", Capability: "12.0"}
)

// like is n copies of a device, numbered, with perNode of them to a NUMA node.
func like(d Device, perNode int) func(i int) Device {
	return func(i int) Device {
		d.Index, d.NUMA = i, strconv.Itoa(i/perNode)
		return d
	}
}

// pcie is n GPUs without NVLink, perNode to a processor: near links within one, far links between two.
func pcie(n, perNode int, near, far Class, d Device) func() Graph {
	return func() Graph {
		nodes := perNode
		if near == far {
			nodes = (n + 1) / 2 // the class does not show the processors
		}
		g := Uniform(n, Link{Class: near}, like(d, nodes))
		for a := range n {
			for b := range n {
				if a/perNode != b/perNode {
					g.Links[a][b] = Link{Class: far}
				}
			}
			g.Links[a][a] = Link{}
		}
		g.Multicast = No
		return g
	}
}

// switched is n GPUs with so many NVLinks each into NVSwitch. Multicast came with the switches of Hopper.
func switched(n, links int, d Device) func() Graph {
	return func() Graph {
		g := Uniform(n, Link{Class: NVLink, Count: links}, like(d, n/2))
		g.P2P, g.Multicast = P2PReported, No
		if links == 18 {
			g.Multicast = Yes
		}
		return g
	}
}

// switched2 is two cards on a bridge: no switch, so no multicast.
func switched2() Graph {
	g := Uniform(2, Link{Class: NVLink, Count: 4}, like(Device{Name: "NVIDIA GeForce RTX 3090", Capability: "8.6"}, 2))
	g.P2P, g.Multicast = P2PReported, No
	return g
}

// mesh4 is an HGX A100 of four GPUs: 12 links each, 4 to each of the others.
func mesh4() Graph {
	g := Uniform(4, Link{Class: NVLink, Count: 4}, like(a100, 2))
	g.P2P, g.Multicast = P2PReported, No
	return g
}

// pairs is n cards joined two by two with bridges of 12 links.
func pairs(n int) func() Graph {
	return func() Graph {
		d := Device{Name: "NVIDIA A100 80GB PCIe", Capability: "8.0"}
		if n == 8 {
			d = Device{Name: "NVIDIA H100 NVL", Capability: "9.0"}
		}
		g := Uniform(n, Link{Class: SYS}, like(d, n/2))
		for i := 0; i < n; i += 2 {
			g.Links[i][i+1] = Link{Class: NVLink, Count: 12}
			g.Links[i+1][i] = Link{Class: NVLink, Count: 12}
		}
		if n == 8 {
			for a := range n {
				for b := range n {
					if a/4 == b/4 && a/2 != b/2 {
						g.Links[a][b] = Link{Class: NODE}
					}
				}
			}
		}
		g.Multicast = No
		return g
	}
}

// uniform8 is eight accelerators with one kind of link, four to a processor.
func uniform8(l Link, d Device) func() Graph {
	return func() Graph {
		g := Uniform(8, l, like(d, 4))
		g.P2P, g.Multicast = P2PReported, No
		return g
	}
}

// l40s8 is a usual server of eight PCIe cards: a switch for every two.
func l40s8() Graph {
	g := pcie(8, 4, NODE, SYS, Device{Name: "NVIDIA L40S", Capability: "8.9"})()
	for i := 0; i < 8; i += 2 {
		g.Links[i][i+1], g.Links[i+1][i] = Link{Class: PIX}, Link{Class: PIX}
	}
	return g
}

// dgx1 is NVIDIA's hybrid cube mesh: six links a GPU.
func dgx1() Graph {
	return volta(4, `
		X 1 1 2 2 . . .
		1 X 2 1 . 2 . .
		1 2 X 2 . . 1 .
		2 1 2 X . . . 1
		2 . . . X 1 1 2
		. 2 . . 1 X 2 1
		. . 1 . 1 2 X 2
		. . . 1 2 1 2 X`)
}

// p3 is one quad of a DGX-1.
func p3() Graph {
	g := volta(4, `
		X 1 1 2
		1 X 2 1
		1 2 X 2
		2 1 2 X`)
	g.P2P = P2PReported
	return g
}

// volta is V100 with the numbers of NVLinks that the rows give; a dot is no NVLink.
func volta(perNode int, rows string) Graph {
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	g := Uniform(len(lines), Link{Class: SYS}, like(v100, perNode))
	for a, line := range lines {
		for b, cell := range strings.Fields(line) {
			if n, err := strconv.Atoi(cell); err == nil {
				g.Links[a][b] = Link{Class: NVLink, Count: n}
			}
		}
	}
	g.Multicast = No
	return g
}
