package foreign

import (
	"slices"
	"strings"
)

// kind is what a section shows.
type kind string

const (
	topoKind   kind = "topo"
	pciKind    kind = "topo -mp"
	p2pKind    kind = "p2p" // with its option
	rocmKind   kind = "rocm"
	amdKind    kind = "amd"
	npuKind    kind = "npu"
	statusKind kind = "nvlink"
	numaKind   kind = "numa"
	namesKind  kind = "names"
)

// family is the tool that prints a kind; "" fits all.
func (k kind) family() string {
	switch {
	case k == numaKind || strings.HasPrefix(string(k), string(rocmKind)):
		return "rocm-smi"
	case strings.HasPrefix(string(k), string(amdKind)):
		return "amd-smi" // it names GPUs by address, rocm-smi by number
	case k == npuKind:
		return "npu-smi"
	case k == namesKind:
		return ""
	}
	return "nvidia-smi"
}

func (s section) kind() kind {
	if in := s.info; in != nil {
		switch {
		case in.status:
			return statusKind
		case in.numa:
			return numaKind
		}
		return namesKind
	}
	return s.table.kind()
}

// kind tells by the cells, not by what stands above: people copy the command of one matrix and paste another.
func (t *table) kind() kind {
	var status, class, amd bool
	for _, r := range t.rows {
		for _, c := range r.cells {
			text := cellText(c)
			_, isStatus := statuses[text]
			_, isLinks := links(text)
			_, isClass := classes[text]
			status = status || isStatus
			class = class || isLinks || isClass
			amd = amd || text == "XGMI" || text == "PCIE"
		}
	}
	switch l := t.rows[0].label.kind; {
	case l == npuLabel:
		return npuKind
	case l == busLabel && amd:
		return amdKind + " link"
	case l == busLabel:
		return amdKind + kind(" "+t.title)
	case amd:
		return rocmKind + " link"
	case class && t.title == "":
	case t.figures:
		return rocmKind + kind(" "+t.title)
	case status || strings.HasPrefix(t.command, "-p2p") && len(t.tails) == 0:
		return p2pKind + kind(strings.TrimPrefix(t.command, "-p2p"))
	}
	if t.command == "-mp" || t.legend.ofPaths() && t.command != "-m" {
		return pciKind
	}
	return topoKind
}

// machine is the sections that one machine printed.
type machine struct {
	kinds    []kind
	sections []section
}

// machines divides sections among machines: one prints each kind once, with one tool.
func machines(sections []section) []*machine {
	var all []*machine
	var m *machine
	for _, s := range known(sections) {
		k := s.kind()
		if m == nil || !m.takes(k) {
			m = &machine{}
			all = append(all, m)
		}
		m.kinds, m.sections = append(m.kinds, k), append(m.sections, s)
	}
	return all
}

// known are the sections without tables of figures that no tool's title stands above, such as measured bandwidths; all if
// there is nothing else.
func known(sections []section) []section {
	titled := slices.DeleteFunc(slices.Clone(sections), func(s section) bool {
		return s.table != nil && s.table.title == "" && s.kind() == rocmKind+" "
	})
	if len(titled) == 0 {
		return sections
	}
	return titled
}

func (m *machine) takes(k kind) bool {
	for _, have := range m.kinds {
		if f, g := have.family(), k.family(); f != g && f != "" && g != "" {
			return false
		}
	}
	return !slices.Contains(m.kinds, k) || k == p2pKind // a bare `-p2p` matrix does not say what it shows
}

// first is the first table of a kind; nil if there is none.
func (m *machine) first(k kind) *table {
	for i, have := range m.kinds {
		if have == k {
			return m.sections[i].table
		}
	}
	return nil
}
