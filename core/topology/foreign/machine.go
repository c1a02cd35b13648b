package foreign

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// reading puts together what one machine printed; ok is false if that names no topology.
func (m *machine) reading(s *scanner) (r Reading, ok bool, err error) {
	r = Reading{Complete: Whole}
	b := builder{Reading: &r, src: s.src}
	for i, k := range m.kinds {
		switch {
		case k == topoKind:
			b.topo(m.sections[i].table, TopoM)
		case k == pciKind && m.first(topoKind) == nil:
			b.topo(m.sections[i].table, TopoMP)
		case k == npuKind:
			b.topo(m.sections[i].table, NPUSMI)
		case k == rocmKind+" link" || k == amdKind+" link":
			b.topo(m.sections[i].table, amdFormat(k))
		}
	}
	for i, k := range m.kinds {
		t, in := m.sections[i].table, m.sections[i].info
		switch {
		case k == pciKind && m.first(topoKind) != nil:
			b.paths(t)
		case strings.HasPrefix(string(k), string(p2pKind)):
			b.p2p(t, strings.TrimSpace(strings.TrimPrefix(string(k), string(p2pKind))))
		case (k.family() == "rocm-smi" || k.family() == "amd-smi") && t != nil:
			b.figures(t, k)
		case in != nil:
			b.info(in, k)
		}
	}
	if len(r.Formats) == 0 {
		return Reading{}, false, nil
	}
	b.finish()
	return r, true, b.err
}

func amdFormat(k kind) string {
	if strings.HasPrefix(string(k), string(amdKind)) {
		return AMDSMI
	}
	return ROCmSMI
}

// builder fills a reading from the sections of one machine.
type builder struct {
	*Reading
	src    source
	labels []label // of Graph.Devices
	err    error
}

func (b *builder) format(f string) {
	if !slices.Contains(b.Formats, f) {
		b.Formats = append(b.Formats, f)
	}
}

// device is the position of a device; it is added if there is none and no matrix has said which there are.
func (b *builder) device(l label, known bool) int {
	i := slices.IndexFunc(b.labels, func(o label) bool { return o.name == l.name })
	if i >= 0 || known {
		return i
	}
	b.labels = append(b.labels, l)
	d := topology.Device{Index: l.n}
	if l.kind == busLabel {
		d.Index, d.PCIBusID = len(b.Graph.Devices), l.name
	}
	b.Graph.Devices = append(b.Graph.Devices, d)
	return len(b.labels) - 1
}

// grow makes room for links between all devices.
func (b *builder) grow() {
	n := len(b.Graph.Devices)
	b.Graph.Links = square(b.Graph.Links, n)
	if b.Graph.PCIe != nil {
		b.Graph.PCIe = square(b.Graph.PCIe, n)
	}
	if b.Graph.Peers != nil {
		b.Graph.Peers = square(b.Graph.Peers, n)
	}
}

func square[T any](m [][]T, n int) [][]T {
	for len(m) < n {
		m = append(m, nil)
	}
	for i := range m {
		m[i] = append(m[i], make([]T, max(0, n-len(m[i])))...)
	}
	return m
}

// topo reads a matrix of links.
func (b *builder) topo(t *table, format string) {
	b.format(format)
	m := newMatrix(t)
	for _, d := range m.devices {
		b.device(d, false)
	}
	b.grow()
	links := b.Graph.Links
	if format == TopoMP {
		b.Graph.PCIe = square[topology.Link](nil, len(b.labels))
		links = b.Graph.PCIe
		b.printed = links
	}
	b.links(m, links)
	for i, d := range m.devices {
		row := m.row(d)
		if row == nil {
			continue
		}
		cpu, numa, sure := m.affinity(row, b.src)
		b.Graph.Devices[i].CPUAffinity, b.Graph.Devices[i].NUMA = cpu, numa
		if !sure {
			b.warn("row %s: %q stands after the matrix and no column can be told for it; left out", d.name, row.tail[0].text)
		}
	}
	b.nics(m)
	b.completeness(m, format)
}

// links fills the links between devices. A pair that only one row shows has that link.
func (b *builder) links(m matrix, links [][]topology.Link) {
	n := len(m.devices)
	untold := map[string][]string{} // pairs by what is printed for them
	for i, from := range m.devices {
		for j := range n {
			if i != j {
				links[i][j] = m.link(b.src, from, j)
			}
			c, ok := m.cell(from, j)
			if !ok || i == j || !blank(cellText(c)) {
				continue
			}
			pair := m.devices[min(i, j)].name + " and " + m.devices[max(i, j)].name
			if word := cellText(c); !slices.Contains(untold[word], pair) {
				untold[word] = append(untold[word], pair)
			}
		}
	}
	for _, word := range slices.Sorted(maps.Keys(untold)) {
		b.warn("the link of %s is printed as %s: the driver could not tell it", first(untold[word], "pair"), word)
	}
	for i := range n {
		for j := range i {
			a, c := links[i][j], links[j][i]
			switch {
			case a.Class == topology.Unknown:
				links[i][j] = c
			case c.Class == topology.Unknown:
				links[j][i] = a
			case a != c:
				b.warn("the matrix contradicts itself: %s to %s is %s, %s to %s is %s; the worse of the two counts. Run the command again",
					m.devices[i].name, m.devices[j].name, a, m.devices[j].name, m.devices[i].name, c)
			}
		}
	}
}

// nics reads the columns of network devices.
func (b *builder) nics(m matrix) {
	for k, c := range m.nics {
		if numbered.MatchString(c.name) {
			continue // a GPU beyond those that are read
		}
		nic := NIC{Name: c.name, Device: m.table.nics[c.name], Links: make([]topology.Link, len(m.devices))}
		for i, d := range m.devices {
			nic.Links[i] = m.link(b.src, d, len(m.devices)+k)
		}
		if nic.Device == "" && !strings.HasPrefix(c.name, "NIC") {
			nic.Device = c.name
		}
		b.NICs = append(b.NICs, nic)
	}
}

// completeness notes what of a matrix is missing.
func (b *builder) completeness(m matrix, format string) {
	state, missing := m.complete()
	if m.misfit {
		b.warn("the header does not fit the rows; the GPUs were counted by their rows")
	}
	switch {
	case m.guessed:
		b.Complete, b.more = Cut, true
		b.warn("there is no header and there are more columns (%d) than rows of GPUs (%d): the others may be NICs, or GPUs whose rows are missing; paste the whole output of `%s`",
			len(m.cols), len(m.devices), format)
	case state == Cut:
		b.Complete, b.more = Cut, b.more || m.heads == nil
		b.warn("the text is cut: rows are missing or not whole (%s); paste the whole output of `%s`", names(missing), format)
	case state == GPURows && b.Complete == Whole:
		b.Complete = GPURows
		b.warn("the text is cut in the rows of the NICs; the GPUs are all there")
	}
}

func names(labels []label) string {
	var s []string
	for _, l := range labels {
		s = append(s, l.name)
	}
	if len(s) > 4 {
		s = append(s[:2], "…", s[len(s)-1])
	}
	return strings.Join(s, ", ")
}

// finish derives what holds for the whole machine.
func (b *builder) finish() {
	b.grow()
	g := &b.Graph
	if b.Complete != Cut {
		g.Complete = topology.Yes
	}
	if g.Peers != nil {
		g.P2P = topology.Access(g.Peers, len(g.Devices))
	}
	if topology.AnyNVLink(g.Links) == topology.No {
		g.Multicast = topology.No
	}
	b.Check()
}

// paths reads the matrix of `topo -mp` beside that of `topo -m`.
func (b *builder) paths(t *table) {
	b.format(TopoMP)
	m := newMatrix(t)
	if len(m.devices) != len(b.labels) {
		b.warn("`topo -mp` shows %d GPUs, `topo -m` %d; only the latter was read", len(m.devices), len(b.labels))
		return
	}
	b.Graph.PCIe = square[topology.Link](nil, len(b.labels))
	b.links(m, b.Graph.PCIe)
}
