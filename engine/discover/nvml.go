package discover

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/nvml"
)

// askNVML reads GPUs, their paths, NVLinks and peer-to-peer access from NVIDIA's management library. The library is not
// closed: CUDA would open it again, and a call that hangs may still be in it.
func askNVML(name string, _ Machine) (view, error) {
	lib, err := nvml.Open(name)
	if err != nil {
		return view{}, err
	}
	if err := lib.Init(); err != nil {
		return view{}, err
	}
	gpus, err := lib.GPUs()
	if err != nil {
		return view{}, err
	}
	n := nvmlReader{lib: lib, gpus: gpus, view: view{all: true}}
	for i, gpu := range gpus {
		d, err := lib.Describe(gpu)
		if err != nil {
			return view{}, fmt.Errorf("GPU %d: %w", i, err)
		}
		d.Index = i
		n.devices = append(n.devices, d)
		parts, divided := lib.Parts(gpu)
		if divided {
			n.divided(i, parts)
		}
	}
	n.read()
	return n.view, nil
}

type nvmlReader struct {
	view
	lib  *nvml.Library
	gpus []nvml.GPU
}

func (n *nvmlReader) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !lo.Contains(n.notes, text) {
		n.notes = append(n.notes, text)
	}
}

// divided notes the parts of a GPU. NVLink and peer-to-peer access are not for them.
func (n *nvmlReader) divided(i int, parts []string) {
	n.devices[i].MIG = parts
	n.note("GPU%d is divided (MIG) into %s: programs that use one have no NVLink and no peer-to-peer access", i, count(len(parts), "part"))
}

// read fills the matrices. A pair that the library does not answer for is unknown.
func (n *nvmlReader) read() {
	links := make([][]nvml.Link, len(n.gpus))
	told := make([]bool, len(n.gpus))
	for i, gpu := range n.gpus {
		var err error
		if links[i], err = n.lib.NVLinks(gpu); err != nil {
			n.note("NVLinks of GPU%d: unknown: %s", i, oneLine(err))
		}
		told[i] = err == nil
	}
	n.pcie = matrixOf(len(n.gpus), func(a, b int) topology.Link {
		class, err := n.lib.PathOf(n.gpus[a], n.gpus[b])
		if err != nil {
			n.note("paths over PCIe: unknown: %s", oneLine(err))
		}
		return topology.Link{Class: class}
	})
	n.peers = matrixOf(len(n.gpus), func(a, b int) topology.Peer {
		p, err := n.lib.Peer(n.gpus[a], n.gpus[b])
		if err != nil {
			n.note("peer-to-peer access: unknown: %s", oneLine(err))
		}
		return p
	})
	n.links = matrixOf(len(n.gpus), func(a, b int) topology.Link {
		count := n.bonded(links[a], links[b], a, b)
		access := n.peers[a][b].NVLink
		switch {
		case count > 0:
			return topology.Link{Class: topology.NVLink, Count: count}
		case access == topology.StatusOK:
			return topology.Link{Class: topology.NVLink} // of a number that was not told
		case told[a] && told[b] || access.Known():
			return n.pcie[a][b]
		}
		return topology.Link{}
	})
}

// bonded is the number of NVLinks between two GPUs: those that lead from one to the other, or else through switches, to
// which all links of a GPU lead.
func (n *nvmlReader) bonded(a, b []nvml.Link, i, j int) int {
	direct := lo.CountBy(a, func(l nvml.Link) bool { return l.BusID == n.devices[j].PCIBusID })
	if direct > 0 {
		return direct
	}
	toSwitch := func(l nvml.Link) bool {
		toGPU := lo.ContainsBy(n.devices, func(d topology.Device) bool { return d.PCIBusID == l.BusID })
		return l.Switch || !toGPU && n.peers[i][j].NVLink == topology.StatusOK // a virtual machine hides switches
	}
	return min(lo.CountBy(a, toSwitch), lo.CountBy(b, toSwitch))
}
