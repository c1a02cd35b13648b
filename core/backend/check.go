package backend

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
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
	ofGroup := func(r Reason) Reason {
		r.Rank = AnyRank
		return r
	}
	same := lo.CountValuesBy(reasons, ofGroup)
	said := map[Reason]bool{}
	var out []Reason
	for _, r := range reasons {
		of := ofGroup(r)
		if r.Rank == AnyRank || same[of] < ranks {
			out = append(out, r)
		} else if !said[of] {
			out = append(out, of)
		}
		said[of] = said[of] || same[of] >= ranks
	}
	return out
}

func (c *checker) call(q Requirements) {
	if len(q.Memories) > 0 && !slices.Contains(q.Memories, c.Class.Memory) {
		c.no(MemoryKind, c.Class.Memory.String(), list(q.Memories))
	}
	if q.Registered && !c.Class.Registered {
		c.no(MemoryKind, "not registered", "registered memory (Group.Alloc, on a GPU Group.AllocDevice)")
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
	if q.NUMANodes > 1 {
		c.nodes(q.NUMANodes)
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
	if g.Deterministic && !q.Deterministic && !c.Class.AnyOrder(g.WorldSize()) {
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

// nodes counts the NUMA nodes that the ranks are bound to. Ranks of which the node is not known may be on nodes of their own.
func (c *checker) nodes(needed int) {
	type node struct{ host, number string }
	seen := map[node]bool{}
	unbound := 0
	for _, r := range c.Group.Ranks {
		if r.NUMA == "" {
			unbound++
		} else {
			seen[node{r.Host, r.NUMA}] = true
		}
	}
	if len(seen)+unbound < needed {
		c.no(NUMACode, Count(len(seen)+unbound, "NUMA node"), fmt.Sprintf("%d or more", needed))
		return
	}
	for rank, r := range c.Group.Ranks {
		if r.NUMA == "" {
			c.dunnoRank("NUMA node", rank, fmt.Sprintf("ranks bound to %d or more NUMA nodes, each to one", needed))
		}
	}
}

// Count is a number of things for people: "1 rank", "2 ranks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
