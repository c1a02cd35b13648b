package discover

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/topology"
)

// chain is where a device hangs: its host bridge (such as "pci0000:16") and the bridges below it, down to the device.
// The kernel shows it as the target of the device's symbolic link.
func chain(sysfs fs.FS, busID string) []string {
	target, err := fs.ReadLink(sysfs, path.Join(pciDevices, busID))
	if err != nil {
		return nil
	}
	parts := strings.Split(path.Clean(target), "/")
	root := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "pci") && strings.Contains(p, ":") })
	if root < 0 {
		return nil
	}
	return parts[root:]
}

// paths are the ways of devices to each other over PCIe, in the classes of `nvidia-smi topo`; nil if the kernel does not
// show where they hang.
func (r *reader) paths(devices []topology.Device) [][]topology.Link {
	chains := lo.Map(devices, func(d topology.Device, _ int) []string { return chain(r.sysfs, d.PCIBusID) })
	if lo.EveryBy(chains, func(c []string) bool { return c == nil }) {
		return nil
	}
	return matrixOf(len(devices), func(a, b int) topology.Link {
		return topology.Link{Class: pathClass(chains[a], chains[b], devices[a].NUMA, devices[b].NUMA)}
	})
}

// pathClass compares two chains. A switch is two bridges in a chain, its upstream and its downstream port: two devices
// below one switch part at its upstream port.
func pathClass(a, b []string, numaA, numaB string) topology.Class {
	if len(a) == 0 || len(b) == 0 {
		return topology.Unknown
	}
	if a[0] != b[0] { // another host bridge
		switch {
		case numaA == "" || numaB == "":
			return topology.Unknown
		case numaA == numaB:
			return topology.NODE
		}
		return topology.SYS
	}
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	switch below := max(len(a), len(b)) - shared; {
	case shared == 1:
		return topology.PHB
	case below <= 2:
		return topology.PIX
	}
	return topology.PXB
}

// Obstacles looks at the GPUs of a machine, as the kernel shows them.
func Obstacles(sysfs fs.FS, g topology.Graph) diagnose.Obstacles {
	o := diagnose.Obstacles{IOMMU: iommu(sysfs, g)}
	o.Redirecting, o.Unread = acs(sysfs, g)
	return o
}

// surroundings notes obstacles, if there are GPUs that they could be in the way of.
func surroundings(sysfs fs.FS, g topology.Graph) []string {
	if len(g.Devices) < 2 || topology.FullNVLink(g.Links) == topology.Yes {
		return nil
	}
	o := Obstacles(sysfs, g)
	var notes []string
	if o.Translates() {
		notes = append(notes, fmt.Sprintf("the IOMMU translates the addresses of GPUs (%s): peer-to-peer access over PCIe may hang or corrupt data; boot with iommu=pt, or turn VT-d or AMD-Vi off", o.IOMMU))
	}
	if len(o.Redirecting) > 0 {
		notes = append(notes, fmt.Sprintf("ACS redirects peer-to-peer traffic to the processor at %s (%s): it is slower, may hang or corrupt data; turn ACS off in the firmware or with setpci",
			o.Redirecting[0], count(len(o.Redirecting), "bridge")))
	}
	if o.Unread > 0 {
		notes = append(notes, fmt.Sprintf("ACS of %s: unknown: only root may read it", count(o.Unread, "bridge")))
	}
	return notes
}

// iommu is how an IOMMU treats the addresses of the first GPU that it does not pass through, or of all.
func iommu(sysfs fs.FS, g topology.Graph) string {
	units, err := fs.ReadDir(sysfs, "class/iommu")
	if err != nil || len(units) == 0 {
		return "" // off, or not shown: nothing speaks against peer-to-peer access
	}
	seen := ""
	for _, d := range g.Devices {
		target, err := fs.ReadLink(sysfs, path.Join(pciDevices, d.PCIBusID, "iommu_group"))
		if err != nil {
			continue
		}
		switch kind := line(sysfs, path.Join("kernel/iommu_groups", path.Base(target), "type")); kind {
		case "":
		case diagnose.PassThrough:
			seen = diagnose.PassThrough
		default:
			return kind
		}
	}
	return seen
}

// The parts of PCI's configuration space that tell of ACS.
const (
	extended     = 0x100       // where extended capabilities begin
	acsID        = 0x000d      // of the capability
	acsControl   = 6           // its control register
	acsRedirects = 1<<2 | 1<<3 // peer-to-peer requests and completions are redirected
)

// acs are the bridges above GPUs that redirect peer-to-peer traffic to the processor, and the number of those that do not
// say: only root may read it.
func acs(sysfs fs.FS, g topology.Graph) (redirecting []string, unread int) {
	bridges := map[string]bool{}
	for _, d := range g.Devices {
		c := chain(sysfs, d.PCIBusID)
		for _, b := range lo.Subset(c, 1, uint(max(0, len(c)-2))) {
			bridges[b] = true
		}
	}
	for b := range bridges {
		config, err := fs.ReadFile(sysfs, path.Join(pciDevices, b, "config"))
		switch {
		case err != nil || len(config) <= extended:
			unread++
		case redirects(config):
			redirecting = append(redirecting, b)
		}
	}
	slices.Sort(redirecting)
	return redirecting, unread
}

// redirects reports whether the ACS capability in a configuration space has peer-to-peer redirection on.
func redirects(config []byte) bool {
	at := extended
	for range 64 { // a list that loops ends
		if at < extended || at+8 > len(config) {
			return false
		}
		head := binary.LittleEndian.Uint32(config[at:])
		if head&0xffff == acsID {
			return binary.LittleEndian.Uint16(config[at+acsControl:])&acsRedirects != 0
		}
		at = int(head >> 20)
	}
	return false
}
