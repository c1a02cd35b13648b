package topo

import (
	"cmp"
	"slices"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// Document is a topology for programs. Devices are named by their index, which is only what the source printed: what
// identifies one is its UUID or bus id. Arrays are sorted.
type Document struct {
	Format       string     `json:"format"`       // of the text that gave the links
	Formats      []string   `json:"formats"`      // of all texts
	Complete     bool       `json:"complete"`     // nothing is known to be missing
	Completeness string     `json:"completeness"` // yes; gpu-rows: only rows of NICs are missing; no
	Devices      []Device   `json:"devices"`
	Links        []Pair     `json:"links"`       // of the pairs that the source shows
	FullNVLink   string     `json:"full_nvlink"` // yes, no or unknown
	Worst        string     `json:"worst"`       // over the pairs shown; unknown if none is
	NVLinkGroups [][]int    `json:"nvlink_groups"`
	P2P          string     `json:"p2p"` // unknown, none, failed, reported or verified
	Peers        []PeerPair `json:"peers"`
	Multicast    string     `json:"multicast"`
	NICs         []NIC      `json:"nics"`
	Warnings     []string   `json:"warnings"`
}

// Device is a GPU. An empty string is what the source does not show.
type Device struct {
	Index       int    `json:"index"`
	UUID        string `json:"uuid"`
	PCIBusID    string `json:"pci_bus_id"`
	Name        string `json:"name"`
	Capability  string `json:"capability"`
	CPUAffinity string `json:"cpu_affinity"` // as printed
	NUMA        string `json:"numa"`         // as printed
	NVLinksUp   *int   `json:"nvlinks_up"`   // null if not told
}

// Pair is the link of two devices, of which A has the lower index.
type Pair struct {
	A     int            `json:"a"`
	B     int            `json:"b"`
	Class topology.Class `json:"class"`
	Count int            `json:"count"` // of NVLinks or XGMI links; 0 if the class has none or the source does not tell
}

// PeerPair is what the driver says of the access of device A to B's memory, in nvidia-smi's words; "" is nothing.
type PeerPair struct {
	A       int             `json:"a"`
	B       int             `json:"b"`
	Access  string          `json:"access"` // unknown, none or reported
	Any     topology.Status `json:"any"`    // of a matrix that does not say which capability it shows
	Read    topology.Status `json:"read"`
	Write   topology.Status `json:"write"`
	NVLink  topology.Status `json:"nvlink"`
	Atomics topology.Status `json:"atomics"`
	PCI     topology.Status `json:"pci"`
	Proof   topology.P2P    `json:"proof"` // verified, failed or none, if it was tried (weir doctor); "" if it was not
	Why     string          `json:"why"`   // beside it
}

// NIC is a network device.
type NIC struct {
	Name   string   `json:"name"`
	Device string   `json:"device"`
	Links  []string `json:"links"` // to each device, in the order of devices
}

// JSON is the document of a reading.
func JSON(r foreign.Reading) Document {
	d := Document{
		Format: r.Format(), Formats: r.Formats, Complete: r.Complete == foreign.Whole, Completeness: string(r.Complete),
		Devices: []Device{}, Links: []Pair{}, FullNVLink: r.FullNVLink().String(), Worst: r.Worst().String(), NVLinkGroups: [][]int{},
		P2P: r.Graph.P2P.String(), Peers: []PeerPair{}, Multicast: r.Graph.Multicast.String(), NICs: []NIC{},
		Warnings: slices.Sorted(slices.Values(r.Warnings)),
	}
	order := lo.Range(len(r.Graph.Devices))
	slices.SortStableFunc(order, func(a, b int) int { return r.Graph.Devices[a].Index - r.Graph.Devices[b].Index })
	index := func(i int) int { return r.Graph.Devices[i].Index }
	links := r.Links()
	for _, a := range order {
		d.Devices = append(d.Devices, device(r, a))
		for _, b := range order {
			if l := links[a][b]; index(a) < index(b) && (l.Class != topology.Unknown || links[b][a].Class != topology.Unknown) {
				if links[b][a].Class != topology.Unknown && (l.Class == topology.Unknown || links[b][a].Slower(l)) {
					l = links[b][a]
				}
				d.Links = append(d.Links, Pair{index(a), index(b), l.Class, l.Count})
			}
			if p := peer(r.Graph.Peers, a, b); p != (topology.Peer{}) {
				d.Peers = append(d.Peers, PeerPair{index(a), index(b), p.Access().String(), p.Any, p.Read, p.Write, p.NVLink, p.Atomics, p.PCI, p.Proof, p.Why})
			}
		}
	}
	for _, set := range r.NVLinkGroups() {
		d.NVLinkGroups = append(d.NVLinkGroups, slices.Sorted(slices.Values(lo.Map(set, func(i, _ int) int { return index(i) }))))
	}
	slices.SortFunc(d.NVLinkGroups, slices.Compare)
	for _, n := range r.NICs {
		d.NICs = append(d.NICs, NIC{n.Name, n.Device, lo.Map(order, func(i, _ int) string { return n.Links[i].String() })})
	}
	slices.SortStableFunc(d.NICs, func(a, b NIC) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	if d.Warnings == nil {
		d.Warnings = []string{}
	}
	return d
}

func peer(peers [][]topology.Peer, a, b int) topology.Peer {
	if a == b || a >= len(peers) || b >= len(peers[a]) {
		return topology.Peer{}
	}
	return peers[a][b]
}

func device(r foreign.Reading, i int) Device {
	d := r.Graph.Devices[i]
	j := Device{d.Index, d.UUID, d.PCIBusID, d.Name, d.Capability, d.CPUAffinity, d.NUMA, nil}
	if i < len(r.NVLinks) && r.NVLinks[i] >= 0 {
		j.NVLinksUp = &r.NVLinks[i]
	}
	return j
}
