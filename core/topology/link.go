// Package topology describes the devices of a machine and the links between them.
package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// Class is the kind of path between two devices, or between the ranks that use them.
type Class string

// The classes. Those from NVLink to SYS are ordered from fastest to slowest as `nvidia-smi topo -m` defines them.
const (
	Unknown    Class = ""     // could not be probed; never taken to be absent
	NVLink     Class = "NV"   // a number of bonded NVLinks
	XGMI       Class = "XGMI" // AMD Infinity Fabric between GPUs
	SIO        Class = "SIO"  // between the two dies of one NPU of Huawei
	HCCS       Class = "HCCS" // Huawei's link between NPUs
	PIX        Class = "PIX"  // at most one PCIe bridge
	PXB        Class = "PXB"  // several PCIe bridges, no host bridge
	PHB        Class = "PHB"  // a PCIe host bridge (the CPU)
	NODE       Class = "NODE" // host bridges of one NUMA node
	SYS        Class = "SYS"  // the interconnect between NUMA nodes
	PCIe       Class = "PCIE" // over PCIe, by a path that its source does not tell
	HostMemory Class = "HOST" // memory of one host, for ranks without a device
)

// slowness orders the classes. A PCIe path that is not told may be the slowest; an unknown link is taken to be slower
// than every known one.
var slowness = map[Class]int{
	NVLink: 0, XGMI: 1, SIO: 2, HCCS: 3, HostMemory: 4, PIX: 5, PXB: 6, PHB: 7, NODE: 8, SYS: 9, PCIe: 10, Unknown: 11,
}

// Link is the connection between two devices.
type Link struct {
	Class Class
	Count int // number of bonded NVLinks, or of XGMI links where told; 0 for the other classes
}

// Slower reports whether l is worse than m: by class, and among NVLinks by fewer links.
func (l Link) Slower(m Link) bool {
	if l.Class != m.Class {
		return slowness[l.Class] > slowness[m.Class]
	}
	return l.Count < m.Count
}

func (l Link) String() string {
	switch {
	case l.Class == Unknown:
		return "unknown"
	case l.Class == NVLink && l.Count > 0:
		return fmt.Sprintf("NV%d", l.Count)
	}
	return string(l.Class)
}

// MarshalText writes the link as String does.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *Link) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "unknown" || s == "" {
		*l = Link{}
		return nil
	}
	if digits, ok := strings.CutPrefix(s, "NV"); ok {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil && n > 0 {
			*l = Link{Class: NVLink, Count: int(n)}
			return nil
		}
	}
	if _, ok := slowness[Class(s)]; !ok {
		return fmt.Errorf("unknown link class %q", s)
	}
	*l = Link{Class: Class(s)}
	return nil
}

// Answer is yes, no or unknown: what could not be established is not a no.
type Answer string

// The answers; the zero value is unknown.
const (
	NotKnown Answer = ""
	Yes      Answer = "yes"
	No       Answer = "no"
)

func (a Answer) String() string {
	if a == NotKnown {
		return "unknown"
	}
	return string(a)
}
