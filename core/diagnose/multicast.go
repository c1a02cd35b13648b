package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// maxLinks is the most NVLinks that a GPU has, up to compute capability 10.x (18; NVIDIA's NVLink page).
const maxLinks = 18

// Multicast is what links and compute capabilities say about NVLink multicast in a group of devices of one host, where
// the source of the topology says nothing of it: no if it is impossible, else unknown, never yes. why is a phrase.
//
// Multicast is a function of NVSwitch, from compute capability 9.0 on. GPUs that are linked to more than two others by
// more links than one has must be on a switch; NV# between two GPUs may be a bridge.
func Multicast(machine topology.Graph, positions []int) (answer topology.Answer, why string) {
	sub, err := machine.Sub(positions)
	if err != nil || len(positions) < 2 {
		return topology.NotKnown, ""
	}
	for _, d := range sub.Devices {
		if old(d.Capability) {
			return topology.No, fmt.Sprintf("compute capability %s has no multicast, it came with 9.0", d.Capability)
		}
	}
	switch topology.FullNVLink(sub.Links) {
	case topology.No:
		return topology.No, "not every pair is linked by NVLink"
	case topology.NotKnown:
		return topology.NotKnown, "not every link is known"
	}
	if OnSwitch(machine, positions) {
		return topology.NotKnown, "the GPUs are on NVSwitch"
	}
	for l := range topology.Pairs(sub.Links, len(positions)) {
		if l.Count > 0 && l.Count != 8 && l.Count < maxLinks { // NV8: H800
			return topology.No, fmt.Sprintf("%s is a bridge or a direct link: with multicast NVSwitch shows NV%d, or NV8 on H800", l, maxLinks)
		}
	}
	if beside := linkedElsewhere(machine, positions); beside != "" {
		return topology.No, beside
	}
	return topology.NotKnown, "NVLink between two GPUs is no proof of a switch"
}

// old reports whether a known capability is below 9.0.
func old(capability string) bool {
	major, err := strconv.Atoi(strings.SplitN(capability, ".", 2)[0])
	return err == nil && major < 9
}

// OnSwitch reports whether the devices can only be linked through NVSwitch: the fully linked set that they are in needs
// more links than a GPU has.
func OnSwitch(machine topology.Graph, positions []int) bool {
	for a := range machine.Devices {
		if !slices.Contains(positions, a) {
			continue
		}
		links := 0
		for b := range machine.Devices {
			if l := topology.At(machine.Links, a, b); a != b && l.Class == topology.NVLink {
				links += l.Count
			}
		}
		if links <= maxLinks {
			return false
		}
	}
	return len(positions) > 0
}

// linkedElsewhere says that a GPU of the host is not linked by NVLink to the group, while all GPUs on a switch would be.
func linkedElsewhere(machine topology.Graph, positions []int) string {
	for b, d := range machine.Devices {
		if slices.Contains(positions, b) {
			continue
		}
		for _, a := range positions {
			if l := topology.At(machine.Links, a, b); l.Class != topology.NVLink && l.Class != topology.Unknown {
				return fmt.Sprintf("GPU%d of the same host is not linked by NVLink (%s): pairs with a bridge, not NVSwitch", d.Index, l)
			}
		}
	}
	return ""
}

// multicast are the findings about NVLink multicast (NVLink SHARP, NVLS) of a group that is full NVLink.
func multicast(s Subject) []Finding {
	if s.Group.FullNVLink() != topology.Yes || s.Group.Multicast == topology.Yes || s.Group.Hosts() > 1 {
		return nil
	}
	inferred, why := Multicast(s.Machine, s.Positions)
	if s.Group.Multicast == topology.No {
		if inferred != topology.No {
			return nil // told, not concluded
		}
		return []Finding{{
			NoNVSwitch, "full NVLink without NVLink multicast: " + why,
			"backends that use multicast (NVLS, multimem) decline or fail here (\"Device does not support multicasting\"); those that only need peer-to-peer access, such as two-shot, do not need it",
		}}
	}
	return []Finding{{
		MulticastNotProven,
		"NVLink is full; whether NVLink multicast (NVLS) works is not in a matrix, so it is unknown" + lo.Ternary(why == "", "", " ("+why+")"),
		"check that Fabric Manager runs (`systemctl status nvidia-fabricmanager`) and that `nvidia-smi -q` shows Fabric State Completed, Status Success; confidential " +
			"computing switches multicast off. Where it is broken (CUDA error 401 when NVLS memory is bound), NCCL_NVLS_ENABLE=0 works",
	}}
}
