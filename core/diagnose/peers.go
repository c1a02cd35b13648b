package diagnose

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// peers are the findings about peer-to-peer access over PCIe, where the driver's word is neither needed to try nor
// enough to be sure.
func peers(s Subject) []Finding {
	if ascend(s) {
		return nil // what follows is of CUDA, HIP and their libraries
	}
	overPCIe, unknown, pairs := 0, 0, 0
	var worst topology.Link
	for l := range topology.Pairs(s.Group.Links, s.Group.WorldSize()) {
		pairs++
		if l.Class == topology.Unknown {
			unknown++
		}
		if PCIe(l.Class) {
			if overPCIe == 0 || l.Slower(worst) {
				worst = l
			}
			overPCIe++
		}
	}
	switch s.Group.P2P {
	case topology.P2PNone:
		return absent()
	case topology.P2PFailed:
		return []Finding{failedGroup(), acs()}
	}
	if overPCIe+unknown == 0 || s.Group.P2P == topology.P2PVerified {
		return nil
	}
	share := fmt.Sprintf("%d of %d pairs are linked over PCIe (worst %s)", overPCIe/2, pairs/2, worst)
	switch overPCIe {
	case pairs:
		share = fmt.Sprintf("the GPUs are linked over PCIe (worst %s)", worst)
	case 0:
		share = "links that are not known may be PCIe"
	}
	amd := lo.SomeBy(s.Group.Ranks, func(r collective.Rank) bool { return r.Device != nil && r.Device.Vendor == "amd" })
	all := []Finding{notProven(s, share, amd), acs()}
	if !amd && s.Group.P2P == topology.P2PReported && consumer(s.Group) != topology.No {
		all = append(all, corruption(consumer(s.Group)))
	}
	return append(all, ncclMayHang(lo.Ternary(amd, "RCCL", "NCCL")))
}

// failedGroup is a group of which a pair is known not to reach each other, though the driver may say so.
func failedGroup() Finding {
	return Finding{
		P2PFailed,
		"peer-to-peer access was tried and failed: data did not arrive, or arrived wrong. Backends that need it decline with P2P_VERIFY_FAILED; those that stage " +
			"through host memory (hoststaged) still serve",
		"run `weir doctor` on the machine: it tries every pair again and says what to change. NCCL may use peer-to-peer access too; NCCL_P2P_DISABLE=1 keeps it off",
	}
}

func absent() []Finding {
	return []Finding{{
		P2PAbsent,
		"the driver reports no peer-to-peer access between some of the GPUs: CUDA IPC and every backend that writes to a peer fail there " +
			"(\"peer access is not supported between these two devices\", cudaIpcOpenMemHandle error 101)",
		"leave such backends off; NCCL stages through host memory and works",
	}}
}

func notProven(s Subject, share string, amd bool) Finding {
	f := Finding{Code: P2PNotProven}
	if s.Group.P2P == topology.P2PReported {
		f.Text = share + ": eligible by class, P2P not proven. The driver reports peer-to-peer access; that is necessary and not sufficient: " +
			"writes were seen to hang or to arrive wrong where it does"
		f.Do = "run `weir doctor` on the machine: it has each GPU write to each other, to compare the data. Until then treat peer-to-peer backends as opt-in. If it was " +
			"proved, say --p2p verified; if it failed, --p2p failed"
		return f
	}
	f.Text = share + ": eligible by class, P2P not proven. P2P unknown: a matrix shows paths, not whether peer-to-peer access works, and it is not to be assumed"
	f.Do = "run `weir doctor` on the machine, and say --p2p verified or failed; or add the output of `nvidia-smi topo -p2p rw` to the paste, or say --p2p none or reported"
	if amd {
		f.Do = "look at `rocm-smi --showtopoaccess`, and say --p2p none, reported or verified"
	}
	return f
}

func acs() Finding {
	return Finding{
		ACSOrIOMMU,
		"where peer-to-peer copies hang or arrive wrong over PCIe, the usual cause is ACS on the PCIe bridges or the IOMMU (VT-d, AMD-Vi): they send peer " +
			"writes through the root complex, which may drop them",
		"look for ACSCtl with SrcValid+ in `lspci -vvv` (as root) and for groups in /sys/kernel/iommu_groups; switch ACS off on the bridges and the IOMMU off " +
			"or to passthrough (iommu=pt). In a virtual machine only the host's owner can",
	}
}

func corruption(known topology.Answer) Finding {
	f := Finding{
		SilentCorruption,
		"consumer cards over PCIe (with a driver patched for peer-to-peer access) were seen to give wrong sums in IPC-based backends without a hang or an error, while NCCL was right",
		"keep IPC-based backends opt-in there, or behind a self-test",
	}
	if known == topology.NotKnown {
		f.Text = "if these are consumer cards (GeForce): " + f.Text
	}
	return f
}

func ncclMayHang(library string) Finding {
	return Finding{
		NCCLMayHang,
		library + " uses peer-to-peer access over PCIe too, so the fallback itself can be what hangs; to switch a custom all-reduce off does not help then",
		"NCCL_P2P_DISABLE=1 stages through host memory and is the safe, slower fallback; NCCL_P2P_LEVEL=NVL keeps peer-to-peer access to NVLink pairs",
	}
}

// PCIe reports whether a path crosses PCIe.
func PCIe(c topology.Class) bool {
	switch c {
	case topology.PIX, topology.PXB, topology.PHB, topology.NODE, topology.SYS, topology.PCIe:
		return true
	}
	return false
}

// consumer says whether a card of the group is known to be one of NVIDIA's consumer line, by its name; not known if a
// name is.
func consumer(g collective.Group) topology.Answer {
	answer := topology.No
	for _, r := range g.Ranks {
		name := ""
		if r.Device != nil {
			name = r.Device.Name
		}
		switch {
		case name == "":
			answer = topology.NotKnown
		case isConsumer(name):
			return topology.Yes
		}
	}
	return answer
}

// isConsumer knows "NVIDIA GeForce RTX 4090" and "RTX 3090", but not "RTX PRO 6000", "RTX 6000 Ada" or "RTX A6000".
func isConsumer(name string) bool {
	if strings.Contains(name, "GeForce") || strings.Contains(name, "TITAN") {
		return true
	}
	_, after, ok := strings.Cut(name, "RTX ")
	model := lo.FirstOrEmpty(strings.Fields(after))
	return ok && len(model) == 4 && strings.Trim(model, "0123456789") == "" && !strings.HasSuffix(model, "000")
}
