package main

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

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
