package backend

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// everywhere are the byte ranges that the windows have for GPUs of every compute capability: what is accepted whatever
// the capability turns out to be. It is for a machine that is not this one, whose GPUs are taken to be alike; where the
// ranks live the capability can be found out, and is not guessed. None if the capability is known, or decides.
func (c *checker) everywhere(q Requirements) []Range {
	unknown := func(r collective.Rank) bool { return r.Device != nil && r.Device.Capability == "" }
	if !c.Hypothetical || !lo.EveryBy(c.Group.Ranks, unknown) || len(c.unmet)+len(c.unknown) > 0 {
		return nil
	}
	var common []Range
	for i, capability := range capabilities(q.Windows) {
		alike := checker{Request: copyRequest(c.Request)}
		eachDevice(&alike.Request, func(d *topology.Device) { d.Capability = capability })
		ranges := alike.windows(q)
		if i > 0 {
			ranges = inBoth(common, ranges)
		}
		if common = ranges; len(common) == 0 {
			return nil
		}
	}
	return common
}

// capabilities are the numbered ones that windows can tell apart: every minor of the majors that they name, and of the
// majors beside those. None if a window names one without a number.
func capabilities(windows []Window) []string {
	majors := map[int]bool{}
	for _, w := range windows {
		if w.Capability == "" {
			continue
		}
		major, err := strconv.Atoi(strings.SplitN(strings.TrimRight(w.Capability, "+-"), ".", 2)[0])
		if err != nil {
			return nil
		}
		for near := major - 1; near <= major+1; near++ {
			majors[near] = true
		}
	}
	return lo.FlatMap(slices.Sorted(maps.Keys(majors)), func(major, _ int) []string {
		return lo.Times(10, func(minor int) string { return strconv.Itoa(major) + "." + strconv.Itoa(minor) })
	})
}

func inBoth(a, b []Range) []Range {
	return lo.FlatMap(a, func(x Range, _ int) []Range {
		return lo.FilterMap(b, func(y Range, _ int) (Range, bool) { return x.Intersect(y) })
	})
}
