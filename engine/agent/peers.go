package agent

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// PeerAccess is what is known of peer-to-peer access between every two of the ranks' GPUs: the weakest evidence of all
// pairs, of theirs alone. detail says which ranks failed, and what was observed.
func PeerAccess(ranks []collective.Rank, t topology.Graph) (access topology.P2P, detail string) {
	if len(ranks) < 2 || lo.SomeBy(ranks, func(r collective.Rank) bool { return r.Device == nil }) {
		return t.P2P, ""
	}
	access = topology.P2PVerified
	failed := 0
	for a, from := range ranks {
		for b, to := range ranks {
			if a == b {
				continue
			}
			e, why := t.Evidence(*from.Device, *to.Device)
			access = access.Weaker(e)
			if e != topology.P2PFailed {
				continue
			}
			if failed++; failed == 1 {
				detail = fmt.Sprintf("rank %d into the memory of rank %d: %s", a, b, why)
			}
		}
	}
	switch {
	case access != topology.P2PFailed:
		return access, ""
	case failed > 1:
		detail += fmt.Sprintf("; %d more directions failed", failed-1)
	}
	return access, detail
}
