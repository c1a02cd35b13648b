package diagnose

import (
	"fmt"
	"strings"

	"github.com/samber/lo"
)

// Obstacles is what of a machine decides whether peer-to-peer access over PCIe works.
type Obstacles struct {
	IOMMU       string   // how an IOMMU translates the addresses of GPUs, such as "DMA-FQ", or PassThrough; "" if there is none, or none is shown
	Redirecting []string // bus ids of bridges above GPUs whose ACS sends peer-to-peer traffic to the processor
	Unread      int      // bridges above GPUs of which that is not known: only root may read it
}

// PassThrough is an IOMMU that leaves the addresses of GPUs as they are.
const PassThrough = "identity"

// Translates reports whether an IOMMU is known to translate the addresses of GPUs.
func (o Obstacles) Translates() bool { return o.IOMMU != "" && o.IOMMU != PassThrough }

// Tried is how many directions between a machine's GPUs were tried, and what came of it.
type Tried struct{ Verified, Failed, Refused, Untried int }

// Doctor is what to do about a machine's peer-to-peer access, now that it was tried.
func Doctor(t Tried, o Obstacles) []Finding {
	var all []Finding
	if t.Failed > 0 {
		all = append(all, p2pFailed(t))
		all = append(all, redirected(o)...)
		all = append(all, translated(o)...)
		if len(all) == 1 {
			all = append(all, hiddenCause(o))
		}
	}
	if t.Refused > 0 {
		f := absent()[0]
		f.Do = "groups with such a pair are served by backends that stage through host memory (hoststaged) and by NCCL. `nvidia-smi topo -p2p rw` says why: CNS is the " +
			"chipset, GNS the GPU's model, TNS the topology, DR a registry key. In a virtual machine the host must pass it on"
		all = append(all, f)
	}
	if t.Failed == 0 && t.Verified > 0 && len(o.Redirecting) > 0 {
		f := redirected(o)[0]
		f.Text = "data arrives right, but " + f.Text
		all = append(all, f)
	}
	return all
}

func p2pFailed(t Tried) Finding {
	return Finding{
		P2PFailed,
		fmt.Sprintf("in %d of %d directions data did not arrive, or arrived wrong. For groups with such a pair every backend that needs peer-to-peer access declines "+
			"with P2P_VERIFY_FAILED; those that stage through host memory (hoststaged) and NCCL still serve", t.Failed, t.Failed+t.Verified),
		"do not trust other programs' peer-to-peer copies either, NCCL's included, before it is mended: NCCL_P2P_DISABLE=1 stages through host memory. Then run `weir doctor` again",
	}
}

func redirected(o Obstacles) []Finding {
	if len(o.Redirecting) == 0 {
		return nil
	}
	const shown = 8
	commands := strings.Join(lo.Map(lo.Subset(o.Redirecting, 0, shown), func(b string, _ int) string { return "setpci -s " + b + " ECAP_ACS+6.w=0000" }), "; ")
	if more := len(o.Redirecting) - shown; more > 0 {
		commands += fmt.Sprintf("; and so for %d more", more)
	}
	return []Finding{{
		ACSOrIOMMU,
		fmt.Sprintf("ACS sends peer-to-peer traffic through the processor at %d bridges above the GPUs (%s)", len(o.Redirecting), strings.Join(lo.Subset(o.Redirecting, 0, shown), ", ")),
		"switch ACS off in the BIOS (ACS Control, under PCIe or virtualization), or until the next boot as root: " + commands,
	}}
}

func translated(o Obstacles) []Finding {
	if !o.Translates() {
		return nil
	}
	return []Finding{{
		ACSOrIOMMU,
		fmt.Sprintf("the IOMMU translates the addresses of GPUs (%s)", o.IOMMU),
		"add iommu=pt to the kernel's parameters (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a new start), or switch VT-d or AMD-Vi off in the BIOS",
	}}
}

// hiddenCause is for a machine that shows neither ACS nor an IOMMU in the way.
func hiddenCause(o Obstacles) Finding {
	f := acs()
	f.Text = "no IOMMU that translates and no ACS that redirects is seen from here; they are the usual causes all the same, and a virtual machine hides them"
	if o.Unread > 0 {
		f.Text = fmt.Sprintf("no IOMMU that translates is seen from here; ACS of %d bridges is not known, only root may read it", o.Unread)
		f.Do = "run `weir doctor` as root; " + f.Do
	}
	f.Do += ". Look at `dmesg` for Xid and AER lines too: a bad riser or cable looks the same"
	return f
}
