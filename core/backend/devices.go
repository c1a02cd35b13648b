package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// devices checks what only GPUs have.
func (c *checker) devices(q Requirements) {
	if c.Group.WorldSize() >= q.LinksFrom {
		c.links(q.Links, LinkNotFull, q.LinksFrom)
	}
	if q.Scope == OneClique {
		c.links([]topology.Class{topology.NVLink}, ScopeCode, 0)
	}
	c.p2p(q)
	if q.Multicast {
		switch c.Group.Multicast {
		case topology.No:
			c.no(NoMulticast, "no", "NVLink multicast")
		case topology.NotKnown:
			c.dunno("multicast", "NVLink multicast")
		}
	}
	for rank, r := range c.Group.Ranks {
		if len(q.Vendors) > 0 {
			c.vendor(q.Vendors, rank, r)
		}
		if len(q.Capabilities) > 0 {
			c.capability(q.Capabilities, rank, r)
		}
		if q.Driver != "" {
			switch {
			case r.Driver == "" && r.Device != nil && impliedDriver(*r.Device, q.Driver):
			case r.Driver == "":
				c.dunnoRank("driver", rank, q.Driver+" or newer")
			case CompareVersions(r.Driver, q.Driver) < 0:
				c.noRank(Version, rank, "driver "+r.Driver, q.Driver+" or newer")
			}
		}
	}
}

// impliedDriver reports whether a GPU runs with no driver older than what is needed.
func impliedDriver(d topology.Device, needed string) bool {
	oldest := topology.OldestDriver(d.Capability)
	return oldest != "" && CompareVersions(oldest, needed) >= 0
}

// links checks the link of every pair; from is the number of ranks that the rule begins at, for the reason's words.
func (c *checker) links(allowed []topology.Class, code Code, from int) {
	if len(allowed) == 0 {
		return
	}
	required := strings.Join(lo.Map(allowed, func(l topology.Class, _ int) string { return l.Words() }), " or ") + " on every pair"
	if from > 2 {
		required += fmt.Sprintf(" of %d or more ranks", from)
	}
	var w wrongLinks
	for a := range c.Group.WorldSize() {
		for b := range a {
			w.add(allowed, b, a, topology.At(c.Group.Links, b, a), topology.At(c.Group.Links, a, b))
		}
	}
	if w.pairs > 0 {
		c.unmet = append(c.unmet, Reason{Code: code, Observed: w.worst.String(), Required: required, Rank: AnyRank, Text: w.String()})
	} else if w.unknown {
		c.dunno("link of a pair", required)
	}
}

// wrongLinks are the pairs of ranks whose link is not allowed. Of a large group there are too many to keep.
type wrongLinks struct {
	worst   topology.Link
	pairs   int
	some    [][2]int // the first of them
	unknown bool     // a link is not known
}

// add looks at the two directions of a pair.
func (w *wrongLinks) add(allowed []topology.Class, a, b int, there, back topology.Link) {
	wrong := false
	for _, l := range [...]topology.Link{there, back} {
		switch {
		case slices.Contains(allowed, l.Class):
		case l.Class == topology.Unknown:
			w.unknown = true
		default:
			if w.pairs == 0 && !wrong || l.Slower(w.worst) {
				w.worst = l
			}
			wrong = true
		}
	}
	if !wrong {
		return
	}
	if w.pairs++; len(w.some) < shownPairs {
		w.some = append(w.some, [2]int{a, b})
	}
}

const shownPairs = 4

func (w *wrongLinks) String() string {
	s := "ranks " + strings.Join(lo.Map(w.some, func(p [2]int, _ int) string { return fmt.Sprintf("%d-%d", p[0], p[1]) }), ", ")
	if more := w.pairs - len(w.some); more > 0 {
		s += fmt.Sprintf(" and %d more pairs", more)
	}
	return s
}

var evidence = map[topology.P2P]int{topology.P2PNone: 1, topology.P2PReported: 2, topology.P2PVerified: 3}

func (c *checker) p2p(q Requirements) {
	need, have := evidence[q.P2P], evidence[c.Group.P2P]
	switch {
	case c.Group.P2P == topology.P2PFailed && (q.P2P == P2PAssumed || need > 1) && c.Group.WorldSize() > 1: // whatever the driver says
		c.unmet = append(c.unmet, Reason{
			Code: P2PVerifyFailed, Observed: string(topology.P2PFailed), Required: string(q.P2P), Rank: AnyRank, Text: c.Group.P2PDetail,
		})
	case q.P2P == P2PAssumed && c.Group.P2P == topology.P2PNone && c.Group.WorldSize() > 1:
		c.no(P2PUnreported, string(c.Group.P2P), "peer-to-peer access, which it assumes")
	case need <= 1 || have >= need || c.Group.WorldSize() < 2:
	case have == 0:
		c.dunnoProof("peer-to-peer access", q.P2P)
	case have == 1 || q.P2P == topology.P2PReported:
		c.no(P2PUnreported, string(c.Group.P2P), string(q.P2P))
	default: // the driver reports it, but nobody has proved it
		c.dunnoProof("peer-to-peer access reported, proof", q.P2P)
	}
}

// dunnoProof says too what proves that peer-to-peer access works, where a proof is needed.
func (c *checker) dunnoProof(what string, need topology.P2P) {
	c.dunno(what, string(need))
	if need == topology.P2PVerified {
		c.unknown[len(c.unknown)-1].Text = "`weir doctor` on the machine finds out"
	}
}

func (c *checker) vendor(wanted []string, rank int, r collective.Rank) {
	required := strings.Join(wanted, " or ")
	switch {
	case r.Device == nil:
		c.noRank(Platform, rank, "no GPU", "a GPU of "+required)
	case r.Device.Vendor == "":
		c.dunnoRank("vendor of the GPU", rank, required)
	case !slices.Contains(wanted, r.Device.Vendor):
		c.noRank(Platform, rank, r.Device.Vendor, required)
	}
}

func (c *checker) capability(wanted []string, rank int, r collective.Rank) {
	required := strings.Join(wanted, ", ")
	switch {
	case r.Device == nil:
		c.noRank(Arch, rank, "no GPU", required)
	case r.Device.Capability == "":
		c.dunnoRank("compute capability", rank, required)
	case !HasCapability(wanted, r.Device.Capability):
		c.noRank(Arch, rank, r.Device.Capability, required)
	}
}
