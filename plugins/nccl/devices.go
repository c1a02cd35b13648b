package main

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// reachable says why no rank could reach another's memory, as symmetric memory needs; nothing if that is not known.
func reachable(g collective.Group) []backend.Reason {
	if a, b, shared := g.SharedDevice(); shared {
		return []backend.Reason{{
			Code: backend.LinkNotFull, Rank: b, Observed: fmt.Sprintf("ranks %d and %d on one GPU", a, b), Required: "peer-to-peer access between every two ranks' GPUs",
		}}
	}
	if g.P2P == topology.P2PNone {
		return []backend.Reason{backend.Because(backend.P2PUnreported, string(g.P2P), "peer-to-peer access between every two GPUs")}
	}
	return nil
}

// devices says whether the ranks' GPUs will do: one each, or shared where the group allows that.
func devices(g collective.Group) backend.Verdict {
	accept := backend.Accepted(backend.AllBytes()...)
	a, b, shared := g.SharedDevice()
	if !shared {
		return accept
	}
	d := g.Ranks[b].Device
	what := fmt.Sprintf("ranks %d and %d are both on GPU %s", a, b, lo.CoalesceOrEmpty(d.UUID, d.PCIBusID))
	if !g.ShareDevices {
		return backend.Declined(backend.Reason{
			Code: backend.Other, Rank: b, Text: what + "; NCCL wants one for each rank (group.share_devices allows it, for tests)",
		})
	}
	accept.Reasons = []backend.Reason{{Code: backend.Other, Rank: backend.AnyRank, Text: what + ": a test arrangement, and slow (group.share_devices)"}}
	return accept
}
