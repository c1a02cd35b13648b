// Package diagnose says what the facts about a group cannot prove and what usually goes wrong on machines like it.
package diagnose

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// Code names a finding. docs/explain.md has a section for each.
type Code string

// The findings.
const (
	Divided            Code = "MIG"
	P2PNotProven       Code = "P2P_NOT_PROVEN"
	P2PAbsent          Code = "P2P_ABSENT"
	P2PFailed          Code = "P2P_FAILED"
	ACSOrIOMMU         Code = "ACS_OR_IOMMU"
	NCCLMayHang        Code = "NCCL_MAY_HANG"
	SilentCorruption   Code = "SILENT_CORRUPTION"
	SelfTest           Code = "SELF_TEST"
	PartialNVLink      Code = "PARTIAL_NVLINK"
	MulticastNotProven Code = "MULTICAST_NOT_PROVEN"
	NoNVSwitch         Code = "NO_NVSWITCH"
	IndexIsNotIdentity Code = "INDEX_IS_NOT_IDENTITY"
	SeveralHosts       Code = "SEVERAL_HOSTS"
	CapabilityUnknown  Code = "CAPABILITY_UNKNOWN"
	LinksUnknown       Code = "LINKS_UNKNOWN"
)

// Codes lists every code in the order in which findings are given.
func Codes() []Code {
	return []Code{
		SeveralHosts, Divided, LinksUnknown, CapabilityUnknown, IndexIsNotIdentity, PartialNVLink, NoNVSwitch, MulticastNotProven,
		P2PAbsent, P2PFailed, P2PNotProven, ACSOrIOMMU, SilentCorruption, NCCLMayHang, SelfTest,
	}
}

// Finding is one thing to know about a group.
type Finding struct {
	Code Code
	Text string // what is so
	Do   string // what to do or to look at; "" if there is nothing
}

// Subject is a group of GPUs within its machine.
type Subject struct {
	Machine   topology.Graph   // of one host, whole
	Positions []int            // of the group's devices in Machine; nil: all of them
	Group     collective.Group // with what was told beside the machine
	Class     collective.Class
	Divided   bool // GPUs are divided (MIG), and the group's ranks may have parts of them
}

// Findings are what is to be said of the group, in the order of Codes. Groups without GPUs have none.
func Findings(s Subject) []Finding {
	if s.Class.Memory != collective.CUDA || s.Group.WorldSize() < 2 {
		return nil
	}
	if s.Positions == nil {
		s.Positions = lo.Range(len(s.Machine.Devices))
	}
	var all []Finding
	for _, find := range []func(Subject) []Finding{
		severalHosts, divided, linksUnknown, capabilityUnknown, indexIsNotIdentity, partialNVLink, multicast, peers, selfTest,
	} {
		all = append(all, find(s)...)
	}
	return all
}

func severalHosts(s Subject) []Finding {
	n := s.Group.Hosts()
	if n < 2 {
		return nil
	}
	return []Finding{{
		SeveralHosts, fmt.Sprintf("the group is on %d hosts, and one host's matrix says nothing of the GPUs of another", n),
		"GPUs of several hosts are one NVLink domain only if all report the same fabric cluster and clique id: compare " +
			"`nvidia-smi -q | grep -A 4 Fabric` on each host",
	}}
}

func divided(s Subject) []Finding {
	if !s.Divided {
		return nil
	}
	return []Finding{{
		Divided, "MIG is on: a part of a divided GPU has no NVLink and no peer-to-peer access, whatever the matrix shows for the whole GPU",
		"use whole GPUs (`nvidia-smi -mig 0` as root) for what all-reduces; where the group's GPUs are whole, say --p2p reported",
	}}
}

func linksUnknown(s Subject) []Finding {
	sub, err := s.Machine.Sub(s.Positions)
	if err != nil {
		return nil
	}
	unknown := 0
	for l := range topology.Pairs(sub.Links, len(sub.Devices)) {
		if l.Class == topology.Unknown {
			unknown++
		}
	}
	if unknown == 0 {
		return nil
	}
	n := len(sub.Devices)
	do := "give the whole output of `nvidia-smi topo -m` (`topo -mp` hides NVLink), or of `rocm-smi --showtopo`"
	if ascend(s) {
		do = "give the whole output of `npu-smi info -t topo`"
	}
	return []Finding{{LinksUnknown, fmt.Sprintf("the links of %d of %d pairs are not known", (unknown+1)/2, n*(n-1)/2), do}}
}

func capabilityUnknown(s Subject) []Finding {
	missing := lo.CountBy(s.Group.Ranks, func(r collective.Rank) bool { return r.Device != nil && r.Device.Capability == "" })
	if missing == 0 || ascend(s) {
		return nil
	}
	f := Finding{CapabilityUnknown, "the compute capability of the GPUs is not known; a matrix does not hold it", "name it, such as --capability 9.0"}
	if lo.SomeBy(s.Group.Ranks, func(r collective.Rank) bool { return r.Device != nil && r.Device.Vendor == "amd" }) {
		f.Text = "the tables do not say which part the GPUs are: what needs an MI300 (QuickReduce) can be judged only when that is known"
		f.Do = "name the architecture, such as --capability gfx942 for MI300X"
	}
	return []Finding{f}
}

// ascend reports whether the group has NPUs of Huawei: they have no compute capability and run neither NCCL nor RCCL.
func ascend(s Subject) bool {
	return lo.SomeBy(s.Group.Ranks, func(r collective.Rank) bool { return r.Device != nil && r.Device.Vendor == "huawei" })
}

// indexIsNotIdentity compares the group with the devices that a check by visible index would look at.
func indexIsNotIdentity(s Subject) []Finding {
	n := len(s.Positions)
	if s.Group.Hosts() > 1 || lo.EveryBy(lo.Range(n), func(i int) bool { return s.Positions[i] == i }) {
		return nil
	}
	group, err := s.Machine.Sub(s.Positions)
	if err != nil {
		return nil
	}
	first, err := s.Machine.Sub(lo.Range(n))
	if err != nil {
		return nil
	}
	ours, theirs := topology.FullNVLink(group.Links), topology.FullNVLink(first.Links)
	differ := ours != theirs || topology.Worst(group.Links) != topology.Worst(first.Links)
	if !differ {
		return nil
	}
	return []Finding{{
		IndexIsNotIdentity,
		fmt.Sprintf("the group is %s (full NVLink %s, worst %s). In a process that sees only these they are numbered 0 to %d; a check that takes such a number for "+
			"the physical one looks at %s instead (full NVLink %s, worst %s)", gpus(s.Machine, s.Positions), ours, topology.Worst(group.Links), n-1,
			gpus(s.Machine, lo.Range(n)), theirs, topology.Worst(first.Links)),
		"identify GPUs by UUID or PCI bus id (CUDA_VISIBLE_DEVICES=GPU-…, CUDA_DEVICE_ORDER=PCI_BUS_ID)",
	}}
}

// partialNVLink names the sets within the group that are full NVLink when the group is not.
func partialNVLink(s Subject) []Finding {
	if s.Group.FullNVLink() != topology.No || s.Group.Hosts() > 1 {
		return nil
	}
	sub, err := s.Machine.Sub(s.Positions)
	if err != nil {
		return nil
	}
	sets := topology.Groups(sub.Links, topology.NVLink)
	if len(sets) == 0 {
		return nil
	}
	names := lo.Map(sets, func(set []int, _ int) string {
		return gpus(s.Machine, lo.Map(set, func(i, _ int) int { return s.Positions[i] }))
	})
	return []Finding{{
		PartialNVLink, "some pairs of the group are linked by NVLink, others are not; full NVLink within it: " + strings.Join(names, "; "),
		"where the program allows it, make groups that stay within one of these sets",
	}}
}

func selfTest(s Subject) []Finding {
	if s.Group.P2P == topology.P2PNone {
		return nil
	}
	what := "links and P2P status say nothing about the backend itself"
	if s.Group.FullNVLink() == topology.Yes {
		what = "full NVLink puts the topology out of question, not the backend"
	}
	return []Finding{{
		SelfTest, what + ": a race in its start-up shows only now and then, as wrong sums",
		"run a self-test with known sums at each start, before traffic; Weir does, and declines a backend that fails it with SELFTEST_FAILED",
	}}
}

// gpus names devices, such as "GPU0, GPU1".
func gpus(g topology.Graph, positions []int) string {
	return strings.Join(lo.FilterMap(positions, func(p, _ int) (string, bool) {
		if p < 0 || p >= len(g.Devices) {
			return "", false
		}
		return fmt.Sprintf("GPU%d", g.Devices[p].Index), true
	}), ", ")
}
