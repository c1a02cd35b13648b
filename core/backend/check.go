package backend

import (
	"fmt"
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
	c := checker{group: req.Group, class: req.Class}
	c.request(q)
	c.ranks(q)
	if req.Class.Memory == collective.CUDA {
		c.devices(q)
	}
	c.libraries(q)
	ranges := c.windows(q)
	switch {
	case len(c.unmet) > 0:
		return Declined(c.unmet...)
	case len(c.unknown) > 0:
		return Verdict{Kind: Unknown, Reasons: c.unknown}
	}
	return Accepted(ranges...)
}

type checker struct {
	group          collective.Group
	class          collective.Class
	unmet, unknown []Reason
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

func (c *checker) request(q Requirements) {
	if len(q.Memories) > 0 && !slices.Contains(q.Memories, c.class.Memory) {
		c.no(MemoryKind, c.class.Memory.String(), list(q.Memories))
	}
	if len(q.DataTypes) > 0 && !slices.Contains(q.DataTypes, c.class.DataType) {
		c.no(DType, c.class.DataType.String(), list(q.DataTypes))
	}
	if len(q.Ops) > 0 && !slices.Contains(q.Ops, c.class.Op) {
		c.no(OpCode, c.class.Op.String(), list(q.Ops))
	}
	if len(q.Modes) > 0 && !slices.Contains(q.Modes, Mode(c.class.Mode())) {
		c.no(CaptureState, c.class.Mode(), list(q.Modes))
	}
}

func (c *checker) ranks(q Requirements) {
	g := c.group
	if n := g.WorldSize(); len(q.WorldSizes) > 0 && !inSpans(q.WorldSizes, n) {
		c.no(WorldSize, strconv.Itoa(n), spans(q.WorldSizes))
	}
	if n := g.Hosts(); q.Scope != AnyScope && n > 1 {
		c.no(MultiHost, fmt.Sprintf("%d hosts", n), "one host")
	}
	if q.Alignment > 0 && g.Alignment%q.Alignment != 0 || q.Alignment > 0 && g.Alignment == 0 {
		c.no(Alignment, fmt.Sprintf("buffers aligned to %s", lo.Ternary(g.Alignment == 0, "their element", fmt.Sprintf("%d B", g.Alignment))), fmt.Sprintf("%d B", q.Alignment))
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
	c.links(q)
	c.p2p(q)
	if q.Multicast {
		switch c.group.Multicast {
		case topology.No:
			c.no(NoMulticast, "no", "NVLink multicast")
		case topology.NotKnown:
			c.dunno("multicast", "NVLink multicast")
		}
	}
	for rank, r := range c.group.Ranks {
		if len(q.Capabilities) > 0 {
			c.capability(q.Capabilities, rank, r)
		}
		if q.Driver != "" {
			switch {
			case r.Driver == "":
				c.dunno(fmt.Sprintf("driver of rank %d", rank), q.Driver+" or newer")
			case CompareVersions(r.Driver, q.Driver) < 0:
				c.noRank(Version, rank, "driver "+r.Driver, q.Driver+" or newer")
			}
		}
	}
}

func (c *checker) links(q Requirements) {
	allowed := q.Links
	code := LinkNotFull
	if q.Scope == OneClique && len(allowed) == 0 {
		allowed, code = []topology.Class{topology.NVLink}, ScopeCode
	}
	if len(allowed) == 0 || c.group.WorldSize() < 2 {
		return
	}
	required := strings.Join(lo.Map(allowed, func(l topology.Class, _ int) string { return string(l) }), " or ") + " on every pair"
	var worst *topology.Link
	unknown := false
	for a, row := range c.group.Links {
		for b, l := range row {
			switch {
			case a == b || slices.Contains(allowed, l.Class):
			case l.Class == topology.Unknown:
				unknown = true
			case worst == nil || l.Slower(*worst):
				worst = &l
			}
		}
	}
	if worst != nil {
		c.no(code, worst.String(), required)
	} else if unknown {
		c.dunno("link of a pair", required)
	}
}

var evidence = map[topology.P2P]int{topology.P2PNone: 1, topology.P2PReported: 2, topology.P2PVerified: 3}

func (c *checker) p2p(q Requirements) {
	need, have := evidence[q.P2P], evidence[c.group.P2P]
	switch {
	case need <= 1 || have >= need || c.group.WorldSize() < 2:
	case have == 0:
		c.dunno("peer-to-peer access", string(q.P2P))
	case have == 1 || q.P2P == topology.P2PReported:
		c.no(P2PUnreported, string(c.group.P2P), string(q.P2P))
	default: // the driver reports it, but nobody has proved it
		c.dunno("peer-to-peer access reported, proof", string(q.P2P))
	}
}

func (c *checker) capability(wanted []string, rank int, r collective.Rank) {
	required := strings.Join(wanted, ", ")
	switch {
	case r.Device == nil:
		c.noRank(Arch, rank, "no GPU", required)
	case r.Device.Capability == "":
		c.dunno(fmt.Sprintf("compute capability of rank %d", rank), required)
	case !lo.SomeBy(wanted, func(w string) bool { return matchesCapability(w, r.Device.Capability) }):
		c.noRank(Arch, rank, r.Device.Capability, required)
	}
}

func (c *checker) libraries(q Requirements) {
	for _, need := range q.Libraries {
		for rank, r := range c.group.Ranks {
			have, found := lo.Find(r.Libraries, func(l collective.Library) bool { return l.Name == need.Name })
			switch {
			case !found:
				c.noRank(LibMissing, rank, "not loaded", strings.TrimSpace(need.Name+" "+need.Version))
			case need.Version != "" && CompareVersions(have.Version, need.Version) < 0:
				c.noRank(Version, rank, need.Name+" "+have.Version, need.Version+" or newer")
			}
		}
	}
}

// windows are the byte ranges for the group; none if there is no window for its key.
func (c *checker) windows(q Requirements) []Range {
	if len(q.Windows) == 0 {
		return []Range{{Min: 1, Max: NoLimit, Multiple: q.Multiple}}
	}
	capability := ""
	if len(c.group.Ranks) > 0 && c.group.Ranks[0].Device != nil {
		capability = c.group.Ranks[0].Device.Capability
	}
	byArch := lo.Filter(q.Windows, func(w Window, _ int) bool {
		return w.Capability == "" || capability != "" && matchesCapability(w.Capability, capability)
	})
	byWorld := lo.Filter(byArch, func(w Window, _ int) bool { return w.WorldSize == 0 || w.WorldSize == c.group.WorldSize() })
	byMode := lo.Filter(byWorld, func(w Window, _ int) bool { return w.Mode == "" || string(w.Mode) == c.class.Mode() })
	switch {
	case len(byArch) == 0 && capability == "":
		c.dunno("compute capability", "one with a byte window")
	case len(byArch) == 0:
		c.no(Arch, capability, "one with a byte window")
	case len(byWorld) == 0:
		c.no(WorldSize, strconv.Itoa(c.group.WorldSize()), "one with a byte window")
	case len(byMode) == 0:
		c.no(CaptureState, c.class.Mode(), "a mode with a byte window")
	}
	return lo.Map(byMode, func(w Window, _ int) Range {
		w.Range.Multiple = lcm(w.Range.Multiple, q.Multiple)
		return w.Range
	})
}

func matchesCapability(wanted, have string) bool {
	if least, ok := strings.CutSuffix(wanted, "+"); ok {
		return CompareVersions(have, least) >= 0
	}
	return wanted == have
}

// CompareVersions orders dotted numbers such as "570.86.10": negative if a is older than b, 0 if equal; what is not a
// number counts as 0.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, _ := strconv.Atoi(lo.NthOrEmpty(as, i))
		y, _ := strconv.Atoi(lo.NthOrEmpty(bs, i))
		if x != y {
			return x - y
		}
	}
	return 0
}

func inSpans(all []Span, n int) bool {
	return lo.SomeBy(all, func(s Span) bool { return s.Min <= n && n <= s.Max })
}

func spans(all []Span) string {
	return strings.Join(lo.Map(all, func(s Span, _ int) string {
		if s.Min == s.Max {
			return strconv.Itoa(s.Min)
		}
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	}), ", ")
}

func list[T any](all []T) string {
	return strings.Join(lo.Map(all, func(v T, _ int) string { return fmt.Sprint(v) }), ", ")
}
