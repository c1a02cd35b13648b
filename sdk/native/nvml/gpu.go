package nvml

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/topology"
)

// pciInfo is nvmlPciInfo_t.
type pciInfo struct {
	_                   [16]byte // the old bus id
	domain, bus, device uint32
	_, _                uint32
	_                   [32]byte // the bus id as text
	_                   [64]byte // room for what a newer library might write
}

// busID is written as the kernel does.
func (p pciInfo) busID() string { return fmt.Sprintf("%04x:%02x:%02x.0", p.domain, p.bus, p.device) }

// Describe is a GPU's identity, name and capability. Only the identity is needed; what else cannot be had is "".
func (l *Library) Describe(gpu GPU) (topology.Device, error) {
	var p pciInfo
	id, err := l.UUID(gpu)
	err = errors.Join(err, l.check("nvmlDeviceGetPciInfo_v3", l.pciInfo(gpu, unsafe.Pointer(&p))))
	if err != nil {
		return topology.Device{}, err
	}
	d := topology.Device{UUID: id, PCIBusID: p.busID(), Vendor: "nvidia"}
	var name [nameBytes]byte
	if l.name != nil && l.name(gpu, &name[0], nameBytes) == 0 {
		d.Name = unix.ByteSliceToString(name[:])
	}
	var major, minor int32
	if l.capability != nil && l.capability(gpu, &major, &minor) == 0 {
		d.Capability = fmt.Sprintf("%d.%d", major, minor)
	}
	return d, nil
}

// UUID identifies a GPU, or a part of one ("MIG-…").
func (l *Library) UUID(gpu GPU) (string, error) {
	var s [uuidBytes]byte
	err := l.check("nvmlDeviceGetUUID", l.uuid(gpu, &s[0], uuidBytes))
	return unix.ByteSliceToString(s[:]), err
}

// levels are NVML's distances of two GPUs over PCIe.
var levels = map[uint32]topology.Class{10: topology.PIX, 20: topology.PXB, 30: topology.PHB, 40: topology.NODE, 50: topology.SYS}

// PathOf is the path of two GPUs over PCIe. Two GPUs of one board are PIX.
func (l *Library) PathOf(a, b GPU) (topology.Class, error) {
	if l.ancestor == nil {
		return topology.Unknown, l.missing("nvmlDeviceGetTopologyCommonAncestor")
	}
	var level uint32
	if err := l.check("nvmlDeviceGetTopologyCommonAncestor", l.ancestor(a, b, &level)); err != nil {
		return topology.Unknown, err
	}
	if level == 0 {
		return topology.PIX, nil
	}
	return levels[level], nil
}

// statuses are NVML's answers on peer-to-peer access, in its order.
var statuses = []topology.Status{
	topology.StatusOK, topology.StatusCNS, topology.StatusGNS, topology.StatusTNS, topology.StatusDR, topology.StatusNS, topology.StatusUnknown,
}

// Peer is what the driver says of a's access to b.
func (l *Library) Peer(a, b GPU) (topology.Peer, error) {
	if l.p2pStatus == nil {
		return topology.Peer{}, l.missing("nvmlDeviceGetP2PStatus")
	}
	var p topology.Peer
	for capability, into := range []*topology.Status{&p.Read, &p.Write, &p.NVLink, &p.Atomics, &p.PCI} {
		var s uint32
		err := l.check("nvmlDeviceGetP2PStatus", l.p2pStatus(a, b, uint32(capability), &s))
		switch {
		case err != nil && capability == 0:
			return topology.Peer{}, err
		case err == nil && int(s) < len(statuses):
			*into = statuses[s]
		}
	}
	return p, nil
}

// Link is an NVLink of a GPU that is up, and what it leads to.
type Link struct {
	BusID  string // of what is at its other end; "" if not told
	Switch bool   // that is an NVSwitch
}

// What an NVLink leads to.
const remoteSwitch = 2

// NVLinks are the NVLinks of a GPU that are up; none, without an error, of a GPU that has none.
func (l *Library) NVLinks(gpu GPU) ([]Link, error) {
	if l.linkState == nil {
		return nil, l.missing("nvmlDeviceGetNvLinkState")
	}
	var links []Link
	for i := range uint32(maxLinks) {
		var active uint32
		err := l.check("nvmlDeviceGetNvLinkState", l.linkState(gpu, i, &active))
		var failed *Error
		if errors.As(err, &failed) && (failed.Code == NotSupported || failed.Code == InvalidArgument) {
			continue // there is no link of this number
		}
		if err != nil {
			return links, err
		}
		if active == 0 {
			continue
		}
		links = append(links, l.remote(gpu, i))
	}
	return links, nil
}

func (l *Library) remote(gpu GPU, i uint32) Link {
	var link Link
	var p pciInfo
	if l.remotePCI != nil && l.remotePCI(gpu, i, unsafe.Pointer(&p)) == 0 {
		link.BusID = p.busID()
	}
	var kind uint32
	if l.remoteType != nil && l.remoteType(gpu, i, &kind) == 0 {
		link.Switch = kind == remoteSwitch
	}
	return link
}

// Parts are the UUIDs of the parts of a divided GPU; divided is false if it is whole or cannot be divided.
func (l *Library) Parts(gpu GPU) (uuids []string, divided bool) {
	var current, pending, n uint32
	if l.migMode == nil || l.migMode(gpu, &current, &pending) != 0 || current == 0 {
		return nil, false
	}
	if l.migMax == nil || l.migHandle == nil || l.migMax(gpu, &n) != 0 {
		return nil, true
	}
	for i := range n {
		var part GPU
		if l.migHandle(gpu, i, &part) != 0 {
			continue // no part has this number
		}
		if id, err := l.UUID(part); err == nil {
			uuids = append(uuids, id)
		}
	}
	return uuids, true
}
