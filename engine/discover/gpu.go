package discover

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

const pciDevices = "bus/pci/devices"

// PCI vendors of GPUs.
const (
	nvidia = 0x10de
	amd    = 0x1002
)

// gpuClasses are the PCI classes of GPUs by vendor: VGA and 3D controllers; AMD's accelerators are also "display" and
// "processing accelerator".
var gpuClasses = map[uint64][]uint64{
	nvidia: {0x0300, 0x0302},
	amd:    {0x0300, 0x0302, 0x0380, 0x1200},
}

// What the kernel alone does not tell.
const (
	notProbed = "GPUs were found on the PCI bus; whether this process may use them was not probed"
	notAsked  = "NVLink, peer-to-peer access and compute capability can only be read through the driver (NVML); not probed"
)

// gpus finds GPUs on the PCI bus, in the order of their bus ids. Their links stay unknown: the path over PCI is only
// what two GPUs fall back to, and a link must never be taken to be worse or better than it is.
func (r *reader) gpus() topology.Graph {
	entries, err := fs.ReadDir(r.sysfs, pciDevices)
	if err != nil {
		r.note("GPUs: unknown: read /sys/%s: %v", pciDevices, cause(err))
		return topology.Graph{}
	}
	var devices []topology.Device
	var unreadable []string
	for _, e := range entries {
		vendor, class, ok := r.identity(e.Name())
		switch {
		case !ok:
			unreadable = append(unreadable, e.Name())
		case slices.Contains(gpuClasses[vendor], class):
			d := r.device(e.Name(), vendor)
			d.Index = len(devices)
			devices = append(devices, d)
		}
	}
	g := topology.Uniform(len(devices), topology.Link{}, func(i int) topology.Device { return devices[i] })
	g.Complete = topology.Yes
	if len(unreadable) > 0 {
		g.Complete = topology.NotKnown
		r.note("GPUs: some may be missing: PCI device %s (of %d such) does not say what it is", unreadable[0], len(unreadable))
	}
	if len(devices) > 0 {
		r.notes = append(r.notes, notProbed, notAsked)
		g.PCIe = r.paths(devices)
	}
	return g
}

// identity is the vendor of a PCI device and its class without the programming interface.
func (r *reader) identity(busID string) (vendor, class uint64, ok bool) {
	vendor, errV := strconv.ParseUint(line(r.sysfs, path.Join(pciDevices, busID, "vendor")), 0, 16)
	class, errC := strconv.ParseUint(line(r.sysfs, path.Join(pciDevices, busID, "class")), 0, 24)
	return vendor, class >> 8, errV == nil && errC == nil
}

func (r *reader) device(busID string, vendor uint64) topology.Device {
	dir := path.Join(pciDevices, busID)
	d := topology.Device{PCIBusID: busID, CPUAffinity: line(r.sysfs, path.Join(dir, "local_cpulist"))}
	if node, err := strconv.Atoi(line(r.sysfs, path.Join(dir, "numa_node"))); err == nil && node >= 0 { // -1: the firmware does not say
		d.NUMA = strconv.Itoa(node)
	}
	var maker string
	switch vendor {
	case nvidia:
		maker, d.Vendor = "NVIDIA", "nvidia"
		information := path.Join("driver/nvidia/gpus", busID, "information")
		d.Name = field(r.procfs, information, "Model")
		if id := field(r.procfs, information, "GPU UUID"); !strings.Contains(id, "?") { // the driver's sign for a GPU not yet started
			d.UUID = id
		}
	case amd:
		maker, d.Vendor = "AMD", "amd"
		d.Name = line(r.sysfs, path.Join(dir, "product_name"))
	}
	if d.Name == "" {
		d.Name = fmt.Sprintf("%s GPU %s", maker, strings.TrimPrefix(line(r.sysfs, path.Join(dir, "device")), "0x"))
	}
	return d
}
