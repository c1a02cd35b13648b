package foreign

import (
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// causes are what the statuses of `topo -p2p` mean, and what to do.
var causes = map[topology.Status]string{
	topology.StatusCNS: "the chipset is not supported: the GPUs may be on different processors or behind a bridge that does not forward; move them, or let NCCL go through host memory",
	topology.StatusGNS: "these GPUs or their driver do not offer it (GeForce does not); NCCL goes through host memory",
	topology.StatusTNS: "the topology is not supported: the GPUs may be too far apart, or a virtual machine hides the path; NCCL goes through host memory",
	topology.StatusNS:  "not supported; NCCL goes through host memory",
	topology.StatusDR:  "disabled by a setting of the driver (NVreg_RegistryDwords); remove the setting to have it",
}

// suspectPeers looks at the evidence of peer-to-peer access and compares it with the links.
func (r *Reading) suspectPeers() {
	refused := map[topology.Status][]string{}
	for a, row := range r.Graph.Peers {
		for b, p := range row {
			if a == b {
				continue
			}
			for _, s := range []topology.Status{p.Any, p.Read, p.Write} {
				if s.Known() && s != topology.StatusOK {
					refused[s] = append(refused[s], r.gpu(a)+"-"+r.gpu(b))
					break
				}
			}
			r.suspectPeer(a, b, p)
		}
	}
	for s, pairs := range refused {
		text := strings.Join(pairs, ", ")
		if len(pairs) > 4 {
			text = strings.Join(pairs[:2], ", ") + ", … (" + count(len(pairs), "direction") + ")"
		}
		r.warn("no peer-to-peer access (%s) between %s: %s", s, text, causes[s])
	}
}

// suspectPeer compares what is said of one direction with the other and with the link.
func (r *Reading) suspectPeer(a, b int, p topology.Peer) {
	back := r.Graph.Peers[b][a]
	link := r.Graph.Links[a][b].Class
	mine, theirs := p.Access(), back.Access()
	switch {
	case a < b && mine != theirs && mine != topology.P2PUnknown && theirs != topology.P2PUnknown:
		r.warn("contradiction: peer-to-peer access is %s from %s to %s and %s in the other direction", mine, r.gpu(a), r.gpu(b), theirs)
	case a < b && link == topology.NVLink && mine == topology.P2PNone:
		r.warn("contradiction: %s and %s are joined by NVLink and have no peer-to-peer access; the link may be down", r.gpu(a), r.gpu(b))
	}
	if a > b || link == topology.Unknown || !p.NVLink.Known() {
		return
	}
	if ok := p.NVLink == topology.StatusOK; ok != (link == topology.NVLink) {
		r.warn("contradiction: the matrix shows %s between %s and %s, `topo -p2p n` shows NVLink access %s", r.Graph.Links[a][b], r.gpu(a), r.gpu(b), p.NVLink)
	}
}

// overPCIe are the classes of paths over PCIe that a processor's or a switch's settings can break.
var overPCIe = []topology.Class{topology.PIX, topology.PXB, topology.PHB, topology.NODE, topology.SYS}

// suspectPCIe says what peer-to-peer access over PCIe rests on.
func (r *Reading) suspectPCIe() {
	var found []topology.Class
	for _, row := range r.Links() {
		for _, l := range row {
			if slices.Contains(overPCIe, l.Class) && !slices.Contains(found, l.Class) {
				found = append(found, l.Class)
			}
		}
	}
	switch r.Graph.P2P {
	case topology.P2PNone, topology.P2PVerified, topology.P2PFailed:
		return // there is no doubt
	}
	if len(found) == 0 {
		return
	}
	slices.SortFunc(found, func(a, b topology.Class) int {
		return slices.Index(overPCIe, a) - slices.Index(overPCIe, b)
	})
	classes := strings.Join(lo.Map(found, func(c topology.Class, _ int) string { return string(c) }), ", ")
	const settings = "ACS or an IOMMU in its way makes it hang or corrupts data (look for ACSCtl with SrcValid+ in `lspci -vvv`; turn ACS and VT-d or AMD-Vi off, or set iommu=pt)"
	do := "run `weir doctor` on the machine, or add the output of `nvidia-smi topo -p2p r`"
	if f := r.Format(); f == RCCLXML || f == ROCmSMI || f == AMDSMI {
		do = "add the output of `rocm-smi --showtopoaccess`"
	}
	if r.Format() == NPUSMI {
		r.warn("peer-to-peer access over PCIe (%s) is unknown: ask `npu-smi info -t p2p-enable` of each card", classes)
		return
	}
	if r.Graph.P2P == topology.P2PReported {
		r.warn("peer-to-peer access over PCIe (%s) is reported, not proven: run `weir doctor` on the machine before relying on it; %s", classes, settings)
		return
	}
	r.warn("peer-to-peer access over PCIe (%s) is unknown: %s; %s", classes, do, settings)
}

// first is the first of some things, and how many more there are.
func first(of []string, what string) string {
	if len(of) == 1 {
		return of[0]
	}
	return of[0] + " (and " + count(len(of)-1, "other "+what) + ")"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
