package foreign

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// readXML reads every topology of NCCL or RCCL in a text.
func readXML(src source) []Reading {
	root := readElements(src.text)
	var loose element // of a text that does not begin with <system>
	var readings []Reading
	for _, e := range root.children {
		switch {
		case e.name == "system":
			readings = append(readings, system(e))
		case e.attrs["id"] != "": // of `nvidia-smi -q -x`
		default:
			loose.children = append(loose.children, e)
		}
	}
	if len(loose.all("pci")) > 0 && len(readings) == 0 {
		readings = append(readings, system(&loose))
	}
	return readings
}

// PCI vendors of GPUs.
const (
	nvidia = "0x10de"
	amd    = "0x1002"
)

// gpu is a GPU of an XML.
type gpu struct {
	pci   *element // where it hangs; may be nil
	self  *element // its own element; nil if only its PCI device is listed
	whole bool     // its links are all there
}

// system reads one <system>.
func system(sys *element) Reading {
	r := Reading{Formats: []string{NCCLXML}, Complete: Whole}
	if len(sys.all("xgmi")) > 0 || slices.ContainsFunc(sys.all("gpu"), func(g *element) bool { return g.attrs["gcn"] != "" }) {
		r.Formats[0] = RCCLXML
	}
	gpus, template := findGPUs(sys)
	found := len(gpus)
	gpus = gpus[:min(found, maxDevices)]
	for i, g := range gpus {
		r.Graph.Devices = append(r.Graph.Devices, g.device(i))
	}
	n := len(gpus)
	r.Graph.Links, r.Graph.PCIe = square[topology.Link](nil, n), square[topology.Link](nil, n)
	for a := range n {
		for b := range n {
			if a != b {
				r.Graph.PCIe[a][b] = path(gpus[a].pci, gpus[b].pci)
				r.Graph.Links[a][b] = link(gpus[a], gpus[b], r.Graph.PCIe[a][b])
			}
		}
	}
	if !sys.closed {
		r.Complete, r.more = Cut, true
		r.warn("the XML is cut: there may be more GPUs than the %d shown; give the whole file that NCCL_TOPO_DUMP_FILE named", n)
	} else {
		r.Graph.Complete = topology.Yes
	}
	if found > maxDevices {
		r.capped()
	}
	r.nets(sys, gpus)
	r.xmlNotes(sys, gpus, template)
	r.oddValues(gpus)
	if topology.AnyNVLink(r.Graph.Links) == topology.No && r.Complete == Whole {
		r.Graph.Multicast = topology.No
	}
	r.suspectLinks()
	r.suspectCounts()
	r.suspectPCIe()
	return r
}

// findGPUs are the GPUs in the order of their device numbers. A template names no GPU but lists PCI devices of that
// class; they are in the order of their bus ids, which is how nvidia-smi counts.
func findGPUs(sys *element) (gpus []gpu, template bool) {
	for _, e := range sys.all("gpu") {
		gpus = append(gpus, gpu{pci: e.up("pci"), self: e, whole: e.closed})
	}
	if len(gpus) > 0 {
		slices.SortStableFunc(gpus, func(a, b gpu) int {
			x, okX := number(a.self.attrs["dev"])
			y, okY := number(b.self.attrs["dev"])
			if !okX || !okY {
				return 0
			}
			return x - y
		})
		return gpus, false
	}
	for _, e := range sys.all("pci") {
		vendor := strings.ToLower(e.attrs["vendor"])
		if strings.HasPrefix(e.attrs["class"], "0x03") && (vendor == "" || vendor == nvidia || vendor == amd) {
			gpus = append(gpus, gpu{pci: e})
		}
	}
	slices.SortStableFunc(gpus, func(a, b gpu) int { return strings.Compare(a.bus(), b.bus()) })
	return gpus, true
}

// bus is the PCI address; "" if it is not known.
func (g gpu) bus() string {
	if g.pci == nil {
		return ""
	}
	return address(g.pci.attrs["busid"])
}

func (g gpu) device(position int) topology.Device {
	d := topology.Device{Index: position, PCIBusID: g.bus()}
	if g.self != nil {
		if n, ok := number(g.self.attrs["dev"]); ok {
			d.Index = n
		}
		d.Capability = capability(g.self.attrs["sm"])
		if gcn := only(amdMachine, g.self.attrs["gcn"]); gcn != "" {
			d.Capability, d.Name = "", "AMD "+gfx(gcn)
		}
	}
	if cpu := g.cpu(); cpu != nil {
		d.NUMA, d.CPUAffinity = only(numaNode, cpu.attrs["numaid"]), only(cpuMask, cpu.attrs["affinity"])
	}
	return d
}

func (g gpu) cpu() *element {
	switch {
	case g.self != nil:
		return g.self.up("cpu")
	case g.pci != nil:
		return g.pci.up("cpu")
	}
	return nil
}

// capability writes NCCL's sm, such as 90 or 121, as CUDA does.
func capability(sm string) string {
	if n, ok := number(sm); ok && n >= 10 {
		return strconv.Itoa(n/10) + "." + strconv.Itoa(n%10)
	}
	return ""
}

// gfx is the name of AMD's architecture; older versions of RCCL write a number, 910 for gfx90a.
func gfx(gcn string) string {
	switch {
	case gcn == "910":
		return "gfx90a"
	case digits(gcn) == len(gcn):
		return "gfx" + gcn
	}
	return gcn
}

// path is the way over PCIe between two devices in NCCL's tree, which shows switches but not which of a processor's
// host bridges a device is on: as NCCL does, PHB stands for all below one processor.
func path(a, b *element) topology.Link {
	if a == nil || b == nil || a == b {
		return topology.Link{}
	}
	above := map[*element]int{}
	steps := 0
	for e := a.parent; e != nil; e = e.parent {
		above[e] = steps
		steps++
	}
	steps = 0
	for e := b.parent; e != nil; e = e.parent {
		if mine, shared := above[e]; shared {
			switch {
			case e.name == "pci" && mine == 0 && steps == 0:
				return topology.Link{Class: topology.PIX}
			case e.name == "pci":
				return topology.Link{Class: topology.PXB}
			case e.name == "cpu":
				return topology.Link{Class: topology.PHB}
			}
			return between(a.up("cpu"), b.up("cpu"))
		}
		steps++
	}
	return topology.Link{}
}

// between is the path of two processors, if they are of one host.
func between(a, b *element) topology.Link {
	if a == nil || b == nil || a.attrs["host_hash"] != b.attrs["host_hash"] {
		return topology.Link{}
	}
	return topology.Link{Class: topology.SYS}
}

// toSwitch is NCCL's class of an NVSwitch as what an NVLink leads to; 0x068001 would be a processor.
const toSwitch = "0x068000"

// link is the link of two GPUs: NVLink or XGMI between them, NVLinks of both to the same switches, else the path over
// PCIe; unknown if the text does not hold all links of both.
func link(a, b gpu, pcie topology.Link) topology.Link {
	if a.self == nil || b.self == nil || !a.whole || !b.whole {
		return topology.Link{}
	}
	if a.host() != b.host() {
		return topology.Link{} // bus ids of two hosts say nothing
	}
	direct := 0
	for _, e := range a.self.children {
		count, ok := number(e.attrs["count"])
		if !ok || b.bus() == "" || address(e.attrs["target"]) != b.bus() {
			continue
		}
		switch e.name {
		case "xgmi":
			return topology.Link{Class: topology.XGMI, Count: count}
		case "nvlink":
			direct += count
		}
	}
	if n := max(direct, min(a.toSwitches(), b.toSwitches())); n > 0 {
		return topology.Link{Class: topology.NVLink, Count: n}
	}
	if a.bus() == "" || b.bus() == "" || a.leadsNowhere() || b.leadsNowhere() {
		return topology.Link{} // there may be one
	}
	return pcie
}

// host is the host whose processor a GPU hangs at.
func (g gpu) host() string {
	if cpu := g.cpu(); cpu != nil {
		return cpu.attrs["host_hash"]
	}
	return ""
}

// toSwitches is the number of a GPU's NVLinks to NVSwitches, each of which every GPU of a host is linked with.
func (g gpu) toSwitches() int {
	n := 0
	for _, e := range g.self.children {
		if count, ok := number(e.attrs["count"]); ok && e.name == "nvlink" && strings.HasPrefix(e.attrs["tclass"], toSwitch) {
			n += count
		}
	}
	return n
}

// nets reads the network devices.
func (r *Reading) nets(sys *element, gpus []gpu) {
	for _, e := range sys.all("net") {
		if len(r.NICs) == maxDevices {
			break
		}
		nic := NIC{Name: e.attrs["name"], Device: e.attrs["name"], Links: make([]topology.Link, len(gpus))}
		for i, g := range gpus {
			nic.Links[i] = path(e.up("pci"), g.pci)
		}
		r.NICs = append(r.NICs, nic)
	}
}

// xmlNotes warns of what a reader of the XML should know.
func (r *Reading) xmlNotes(sys *element, gpus []gpu, template bool) {
	switch {
	case len(gpus) == 0:
		r.warn("the XML does not say which of its PCI devices are GPUs; run NCCL with NCCL_TOPO_DUMP_FILE=FILE and give that file")
	case template:
		r.warn("the XML lists GPUs as PCI devices only (a template for NCCL_TOPO_FILE): it says nothing on NVLink; run NCCL with NCCL_TOPO_DUMP_FILE=FILE and give that file")
	}
	hosts := map[string]bool{}
	for _, c := range sys.all("cpu") {
		hosts[c.attrs["host_hash"]] = true
	}
	if len(hosts) > 1 {
		r.warn("the XML holds processors of %d hosts; links between hosts are unknown", len(hosts))
	}
	l := r.Graph.Links
	for a := range l {
		for b := range a {
			if l[a][b] != l[b][a] && gpus[a].whole && gpus[b].whole {
				r.warn("the XML contradicts itself: GPU %d to %d is %s, GPU %d to %d is %s", r.Graph.Devices[a].Index, r.Graph.Devices[b].Index, l[a][b],
					r.Graph.Devices[b].Index, r.Graph.Devices[a].Index, l[b][a])
			}
		}
	}
	seen := map[int]bool{}
	for i := range r.Graph.Devices {
		if seen[r.Graph.Devices[i].Index] { // numbers of several hosts
			for j := range r.Graph.Devices {
				r.Graph.Devices[j].Index = j
			}
			break
		}
		seen[r.Graph.Devices[i].Index] = true
	}
}
