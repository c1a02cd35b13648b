package backend

import (
	"slices"
	"strconv"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// windows are the byte ranges for the group; none if there is no window for its key. A window of a capability is for
// groups whose every GPU has it.
func (c *checker) windows(q Requirements) []Range {
	if len(q.Windows) == 0 {
		return []Range{{Min: 1, Max: NoLimit, Multiple: q.Multiple}}
	}
	if ranges := c.everywhere(q); len(ranges) > 0 {
		return ranges
	}
	byArch := lo.Filter(q.Windows, func(w Window, _ int) bool {
		return w.Capability == "" || lo.EveryBy(c.Group.Ranks, func(r collective.Rank) bool {
			return r.Device != nil && r.Device.Capability != "" && matchesCapability(w.Capability, r.Device.Capability)
		})
	})
	byLink := lo.Filter(byArch, func(w Window, _ int) bool {
		return w.Link == topology.Unknown || w.Link == c.Group.Worst().Class
	})
	byWorld := lo.Filter(byLink, func(w Window, _ int) bool {
		return w.WorldSizes == Span{} || w.WorldSizes.Contains(c.Group.WorldSize())
	})
	byType := lo.Filter(byWorld, func(w Window, _ int) bool { return w.DataType == nil || *w.DataType == c.Class.DataType })
	byMode := lo.Filter(byType, func(w Window, _ int) bool { return w.Mode == "" || string(w.Mode) == c.Class.Mode() })
	switch {
	case len(byArch) == 0 && !c.saidOf(Arch, "compute capability unknown"):
		c.noWindowForArch()
	case len(byArch) > 0 && len(byLink) == 0 && !c.saidOf(LinkNotFull, "link of a pair"):
		c.noWindowForLink()
	case len(byLink) > 0 && len(byWorld) == 0 && !c.saidOf(WorldSize, ""):
		c.no(WorldSize, strconv.Itoa(c.Group.WorldSize()), "one with a byte window")
	case len(byWorld) > 0 && len(byType) == 0 && !c.saidOf(DType, ""):
		c.no(DType, c.Class.DataType.String(), "one with a byte window")
	case len(byType) > 0 && len(byMode) == 0 && !c.saidOf(CaptureState, ""):
		c.no(CaptureState, c.Class.Mode(), "a mode with a byte window")
	}
	ranges := lo.FilterMap(byMode, func(w Window, _ int) (Range, bool) {
		return w.Range.Intersect(Range{Min: 1, Max: NoLimit, Multiple: q.Multiple, Unmeasured: w.Unmeasured})
	})
	if len(ranges) == 0 && len(byMode) > 0 {
		c.no(Alignment, "no byte count in the windows", "multiples of "+strconv.FormatInt(q.Multiple, 10)+" B")
	}
	return ranges
}

// saidOf reports whether a requirement has given the reason already that a missing window would.
func (c *checker) saidOf(code Code, unknown string) bool {
	return slices.ContainsFunc(c.unmet, func(r Reason) bool { return r.Code == code }) ||
		unknown != "" && slices.ContainsFunc(c.unknown, func(r Reason) bool { return r.Observed == unknown })
}

// noWindowForArch tells a capability without a window from one that is not known.
func (c *checker) noWindowForArch() {
	const required = "one with a byte window"
	isUnknown := func(r collective.Rank) bool { return r.Device != nil && r.Device.Capability == "" }
	switch {
	case slices.ContainsFunc(c.Group.Ranks, isUnknown):
		c.dunno("compute capability", required)
	case slices.ContainsFunc(c.Group.Ranks, func(r collective.Rank) bool { return r.Device == nil }):
		c.no(Arch, "no GPU", required)
	default:
		c.no(Arch, list(lo.Uniq(lo.Map(c.Group.Ranks, func(r collective.Rank, _ int) string { return r.Device.Capability }))), required)
	}
}

// noWindowForLink tells a link without a window from one that is not known.
func (c *checker) noWindowForLink() {
	const required = "one with a byte window"
	worst := c.Group.Worst()
	if worst.Class == topology.Unknown {
		c.dunno("link of a pair", required)
		return
	}
	c.no(LinkNotFull, worst.String(), required)
}
