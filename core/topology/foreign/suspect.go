package foreign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// Check adds warnings of what a reading shows that is contradictory, hidden, or looks like a fault of the machine. Read has
// done so; it is for graphs from elsewhere.
func (r *Reading) Check() {
	if r.printed != nil {
		r.warn("`topo -mp` hides NVLink: the classes are those of the PCIe paths, and whether GPUs have NVLink is unknown; run `nvidia-smi topo -m`")
	}
	r.suspectLinks()
	r.suspectCounts()
	r.suspectStates()
	r.suspectPeers()
	r.suspectPCIe()
	r.suspectNUMA()
}

// gpu names a device as the text does.
func (r *Reading) gpu(i int) string {
	if r.Format() == NPUSMI {
		return "NPU" + strconv.Itoa(r.Graph.Devices[i].Index)
	}
	return "GPU" + strconv.Itoa(r.Graph.Devices[i].Index)
}

func (r *Reading) gpus(positions []int) string {
	s := lo.Map(positions, func(i, _ int) string { return r.gpu(i) })
	if len(s) > 4 {
		s = append(s[:2], "…", s[len(s)-1])
	}
	return strings.Join(s, ", ")
}

// some are the positions for which a condition holds.
func (r *Reading) some(holds func(i int) bool) []int {
	return lo.Filter(lo.Range(len(r.Graph.Devices)), func(i, _ int) bool { return holds(i) })
}

// linked is the number of NVLinks that the matrix shows between a GPU and the one with which it has most; known is
// false if a pair of it is unknown.
func (r *Reading) linked(i int) (most int, known bool) {
	known = true
	for j, l := range r.Graph.Links[i] {
		if i != j && l.Class == topology.Unknown {
			known = false
		}
		if l.Class == topology.NVLink {
			most = max(most, l.Count)
		}
	}
	return most, known
}

// suspectLinks looks for GPUs without NVLink among many with it.
func (r *Reading) suspectLinks() {
	var off []int
	on := 0
	for i := range r.Graph.Devices {
		most, known := r.linked(i)
		if most > 0 {
			on++
		} else if known {
			off = append(off, i)
		}
	}
	if on >= 3 && len(off) > 0 && len(off) < on {
		r.warn("%s off the fabric: no NVLink, while %d other GPUs have it; look at `nvidia-smi nvlink -s`, `dmesg | grep -i nvrm` and the Fabric Manager", isAre(r.gpus(off), len(off)), on)
	}
}

func isAre(names string, n int) string {
	if n == 1 {
		return names + " is"
	}
	return names + " are"
}

// usualPairs are the numbers of NVLinks between two GPUs of the parts that are sold: bridges have 1 or 2 links (Turing),
// 4 (Ampere and Volta), 8, 12 or 18 (A800, A100 and H100 NVL, H200 NVL), 6 of four H200 NVL or of a DGX-2, meshes 4,
// switches 8, 12, 14 or 18. Three are between the GPUs of one processor of a POWER9 server, which has four.
var usualPairs = []int{1, 2, 3, 4, 6, 8, 12, 14, 18}

// bridged are parts whose GPUs are joined two by two, and the links of their bridge.
var bridged = []struct {
	name  string
	links int
}{
	{"RTX 3090", 4},
	{"RTX A6000", 4},
	{"RTX A5500", 4},
	{"RTX A5000", 4},
	{"RTX A4500", 4},
	{"NVIDIA A40", 4},
	{"NVIDIA A30", 4},
	{"RTX 2080 Ti", 2},
	{"TITAN RTX", 2},
	{"Quadro RTX 8000", 2},
	{"Quadro RTX 6000", 2},
	{"Quadro GV100", 4},
	{"H100 NVL", 12},
}

// suspectCounts looks for links that are missing from a bridge or from a GPU's share of a switch.
func (r *Reading) suspectCounts() {
	const advice = "a link may be down or a bridge not seated; compare `nvidia-smi nvlink -s` with what the part has"
	n := len(r.Graph.Devices)
	for a := range n {
		for b := range a {
			l := r.Graph.Links[a][b]
			if l.Class != topology.NVLink || l.Count == 0 {
				continue
			}
			name := r.Graph.Devices[a].Name
			for _, part := range bridged {
				if strings.Contains(name, part.name) && l.Count < part.links {
					r.warn("%s and %s are joined by %d NVLinks; a bridge of %s has %d: %s", r.gpu(b), r.gpu(a), l.Count, part.name, part.links, advice)
				}
			}
			if !slices.Contains(usualPairs, l.Count) || l.Count == 3 && n == 2 {
				r.warn("%s and %s are joined by %d NVLinks, a number that no bridge has: %s", r.gpu(b), r.gpu(a), l.Count, advice)
			}
		}
	}
	most := lo.Max(lo.Map(lo.Range(n), func(i, _ int) int { m, _ := r.linked(i); return m }))
	if most < 4 { // meshes of Volta have pairs of one and of two links
		return
	}
	fewer := r.some(func(i int) bool { m, known := r.linked(i); return known && m > 0 && m < most })
	if len(fewer) > 0 {
		r.warn("%s fewer NVLinks (%s) than others (NV%d): %s", has(r.gpus(fewer), len(fewer)), r.counts(fewer), most, advice)
	}
}

func has(names string, n int) string {
	if n == 1 {
		return names + " has"
	}
	return names + " have"
}

func (r *Reading) counts(of []int) string {
	counts := lo.Uniq(lo.Map(of, func(i, _ int) string { m, _ := r.linked(i); return "NV" + strconv.Itoa(m) }))
	slices.Sort(counts)
	return strings.Join(counts, ", ")
}

// suspectStates compares the states of the NVLinks with the matrix.
func (r *Reading) suspectStates() {
	for len(r.NVLinks) > 0 && len(r.NVLinks) < len(r.Graph.Devices) {
		r.NVLinks = append(r.NVLinks, -1)
	}
	up := 0
	for _, n := range r.NVLinks {
		up = max(up, n)
	}
	for i, n := range r.NVLinks {
		most, known := r.linked(i)
		switch {
		case n < 0:
		case n < most:
			r.warn("contradiction: the matrix shows %d NVLinks of %s, `nvlink -s` %d that are up; a link may have failed between the two commands", most, r.gpu(i), n)
		case n > 0 && most == 0 && known && len(r.NVLinks) > 1:
			r.warn("contradiction: `nvlink -s` shows %d NVLinks of %s that are up, the matrix none: they may lead to a GPU that is not visible here", n, r.gpu(i))
		case n < up && most == 0:
			r.warn("%s has %d NVLinks that are up, another GPU %d: %s", r.gpu(i), n, up, "look at its bridge and at `nvidia-smi nvlink -e`")
		}
	}
}

// suspectNUMA compares classes with the NUMA nodes that the text prints.
func (r *Reading) suspectNUMA() {
	links := r.Links()
	node := func(i int) (int, bool) { return number(r.Graph.Devices[i].NUMA) }
	var across []string
	for a := range links {
		for b := range a {
			x, okX := node(a)
			y, okY := node(b)
			if !okX || !okY {
				continue
			}
			switch c := links[a][b].Class; {
			case c == topology.SYS && x == y:
				r.warn("GPUs of one NUMA node are connected as SYS: the processor may have more nodes than it shows (NPS, SNC or a virtual machine); bind ranks by measurement, not by NUMA node")
			case x != y && (c == topology.PIX || c == topology.PXB || c == topology.PHB || c == topology.NODE):
				across = append(across, fmt.Sprintf("%s and %s are connected as %s, within one NUMA node, but are printed as of nodes %d and %d", r.gpu(b), r.gpu(a), c, y, x))
			}
		}
	}
	if len(across) > 0 {
		r.warn("contradiction: %s", first(across, "pair"))
	}
}
