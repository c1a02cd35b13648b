package backend

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// Check compares the facts of a request with the requirements. It finds every unmet requirement, not only the first.
// The verdict is Accept with the byte ranges left, Decline if a requirement is known to be unmet, and Unknown if only
// facts that could not be established stand in the way.
func (q Requirements) Check(req Request) Verdict {
	c := q.check(req)
	switch {
	case len(c.unmet) > 0:
		return Declined(c.unmet...)
	case len(c.unknown) > 0:
		return Verdict{Kind: Unknown, Reasons: c.unknown}
	}
	return Accepted(c.ranges...)
}

func (q Requirements) check(req Request) checker {
	c := checker{Request: req}
	c.call(q)
	c.ranks(q)
	if req.Class.Memory == collective.CUDA {
		c.devices(q)
	}
	c.libraries(q)
	c.ranges = c.windows(q)
	n := req.Group.WorldSize()
	c.unmet, c.unknown = merged(c.unmet, n), merged(c.unknown, n)
	return c
}

type checker struct {
	Request
	unmet, unknown []Reason
	ranges         []Range
}

func (c *checker) no(code Code, observed, required string) {
	c.unmet = append(c.unmet, Because(code, observed, required))
}

func (c *checker) noRank(code Code, rank int, observed, required string) {
	c.unmet = append(c.unmet, Reason{Code: code, Observed: observed, Required: required, Rank: rank})
}

func (c *checker) dunno(what, required string) {
	c.unknown = append(c.unknown, Because(ProbeUnavailable, what+" unknown", required))
}

func (c *checker) dunnoRank(what string, rank int, required string) {
	c.unknown = append(c.unknown, Reason{Code: ProbeUnavailable, Observed: what + " unknown", Required: required, Rank: rank})
}

// merged has one reason of the group in the place of equal ones of all its ranks.
func merged(reasons []Reason, ranks int) []Reason {
	if ranks < 2 {
		return reasons
	}
	var out []Reason
	for _, r := range reasons {
		of := r
		of.Rank = AnyRank
		same := lo.CountBy(reasons, func(x Reason) bool {
			x.Rank = AnyRank
			return x == of
		})
		if r.Rank == AnyRank || same < ranks {
			out = append(out, r)
		} else if !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	return out
}

func (c *checker) call(q Requirements) {
	if len(q.Memories) > 0 && !slices.Contains(q.Memories, c.Class.Memory) {
		c.no(MemoryKind, c.Class.Memory.String(), list(q.Memories))
	}
	if len(q.DataTypes) > 0 && !slices.Contains(q.DataTypes, c.Class.DataType) {
		c.no(DType, c.Class.DataType.String(), list(q.DataTypes))
	}
	if len(q.Ops) > 0 && !slices.Contains(q.Ops, c.Class.Op) {
		c.no(OpCode, c.Class.Op.String(), list(q.Ops))
	}
	if len(q.Modes) > 0 && !slices.Contains(q.Modes, Mode(c.Class.Mode())) {
		c.no(CaptureState, c.Class.Mode(), list(q.Modes))
	}
}

func (c *checker) ranks(q Requirements) {
	g := c.Group
	if n := g.WorldSize(); len(q.WorldSizes) > 0 && !inSpans(q.WorldSizes, n) {
		c.no(WorldSize, strconv.Itoa(n), spans(q.WorldSizes))
	}
	switch n := g.Hosts(); {
	case n < 2 || q.Scope == AnyScope:
	case q.Scope == OneFabric:
		c.dunno(fmt.Sprintf("NVLink fabric of %d hosts", n), "one fabric (the same cluster and clique id)")
	default:
		c.no(MultiHost, fmt.Sprintf("%d hosts", n), "one host")
	}
	// Buffers begin at a multiple of what the group promises and always at a multiple of the element.
	promised, ok := lcm(int64(g.Alignment), int64(c.Class.DataType.Size()))
	if q.Alignment > 1 && (!ok || promised%int64(q.Alignment) != 0 || promised == 0) {
		c.no(Alignment, fmt.Sprintf("buffers aligned to %d B", promised), fmt.Sprintf("%d B", q.Alignment))
	}
	if q.Placement != collective.AnyPlacement && q.Placement != g.Placement {
		c.no(InPlace, lo.CoalesceOrEmpty(string(g.Placement), "any placement"), string(q.Placement))
	}
	if q.InFlight > 0 && g.InFlight > q.InFlight {
		c.no(InFlight, strconv.Itoa(g.InFlight), fmt.Sprintf("at most %d", q.InFlight))
	}
	if g.Deterministic && !q.Deterministic {
		c.no(Determinism, "not promised", "the same bits in every run")
	}
	if len(q.Platforms) > 0 {
		switch {
		case g.Platform == "":
			c.dunno("platform", strings.Join(q.Platforms, ", "))
		case !slices.Contains(q.Platforms, g.Platform):
			c.no(Platform, g.Platform, strings.Join(q.Platforms, ", "))
		}
	}
}

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
			case r.Driver == "":
				c.dunnoRank("driver", rank, q.Driver+" or newer")
			case CompareVersions(r.Driver, q.Driver) < 0:
				c.noRank(Version, rank, "driver "+r.Driver, q.Driver+" or newer")
			}
		}
	}
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
	var worst *topology.Link
	var pairs [][2]int
	unknown := false
	for a := range c.Group.WorldSize() {
		for b := range a {
			for _, l := range []topology.Link{topology.At(c.Group.Links, b, a), topology.At(c.Group.Links, a, b)} {
				switch {
				case slices.Contains(allowed, l.Class):
					continue
				case l.Class == topology.Unknown:
					unknown = true
					continue
				case worst == nil || l.Slower(*worst):
					worst = &l
				}
				if n := len(pairs); n == 0 || pairs[n-1] != [2]int{b, a} {
					pairs = append(pairs, [2]int{b, a})
				}
			}
		}
	}
	if worst != nil {
		c.unmet = append(c.unmet, Reason{Code: code, Observed: worst.String(), Required: required, Rank: AnyRank, Text: few(pairs)})
	} else if unknown {
		c.dunno("link of a pair", required)
	}
}

// few names some pairs of ranks.
func few(pairs [][2]int) string {
	const shown = 4
	s := "ranks " + strings.Join(lo.Map(pairs[:min(shown, len(pairs))], func(p [2]int, _ int) string { return fmt.Sprintf("%d-%d", p[0], p[1]) }), ", ")
	if more := len(pairs) - shown; more > 0 {
		s += fmt.Sprintf(" and %d more pairs", more)
	}
	return s
}

var evidence = map[topology.P2P]int{topology.P2PNone: 1, topology.P2PReported: 2, topology.P2PVerified: 3}

func (c *checker) p2p(q Requirements) {
	need, have := evidence[q.P2P], evidence[c.Group.P2P]
	switch {
	case q.P2P == P2PAssumed && c.Group.P2P == topology.P2PNone && c.Group.WorldSize() > 1:
		c.no(P2PUnreported, string(c.Group.P2P), "peer-to-peer access, which it assumes")
	case need <= 1 || have >= need || c.Group.WorldSize() < 2:
	case have == 0:
		c.dunno("peer-to-peer access", string(q.P2P))
	case have == 1 || q.P2P == topology.P2PReported:
		c.no(P2PUnreported, string(c.Group.P2P), string(q.P2P))
	default: // the driver reports it, but nobody has proved it
		c.dunno("peer-to-peer access reported, proof", string(q.P2P))
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

func (c *checker) libraries(q Requirements) {
	for _, need := range q.Libraries {
		for rank, r := range c.Group.Ranks {
			have, found := lo.Find(r.Libraries, func(l collective.Library) bool { return l.Name == need.Name })
			switch {
			case !found && c.Hypothetical: // what its ranks will load cannot be known
				c.dunnoRank(need.Name, rank, strings.TrimSpace(need.Name+" "+need.Version))
			case !found:
				c.noRank(LibMissing, rank, "not loaded", strings.TrimSpace(need.Name+" "+need.Version))
			case need.Version != "" && have.Version == "":
				c.dunnoRank("version of "+need.Name, rank, need.Version+" or newer")
			case need.Version != "" && CompareVersions(have.Version, need.Version) < 0:
				c.noRank(Version, rank, need.Name+" "+have.Version, need.Version+" or newer")
			}
		}
	}
}

func inSpans(all []Span, n int) bool {
	return lo.SomeBy(all, func(s Span) bool { return s.Contains(n) })
}

func spans(all []Span) string {
	return strings.Join(lo.Map(all, func(s Span, _ int) string {
		if s.Min == s.Max {
			return strconv.Itoa(s.Min)
		}
		if s.Max >= math.MaxInt32 {
			return fmt.Sprintf("%d or more", s.Min)
		}
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	}), ", ")
}

func list[T any](all []T) string {
	return strings.Join(lo.Map(all, func(v T, _ int) string { return fmt.Sprint(v) }), ", ")
}
