package telemetrytest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
)

// View is what a tree shows. The zero View shows everything.
type View struct {
	Keep func(Span) bool                // spans to show; the children of one left out move to its parent
	Mask func(key, value string) string // what stands for an attribute's value where it depends on the machine
}

// FromEngine keeps the spans of resolutions and leaves out what gRPC and plugins record.
func FromEngine(s Span) bool { return s.Scope == "github.com/weir-project/weir/engine/telemetry" }

// Tree renders spans as lines of name and sorted attributes, children indented below their parent, without ids and
// times. Siblings stand in the order in which they started, except that siblings of one name with a weir.rank that
// follow one another ran side by side and stand in the order of their ranks. "!" marks a span that failed.
func (c *Collector) Tree(v View) string { return Tree(c.Spans(), v) }

// Tree is Collector.Tree for any spans.
func Tree(spans []Span, v View) string {
	byID := lo.KeyBy(spans, func(s Span) string { return s.Trace + s.ID })
	kept := spans
	if v.Keep != nil {
		kept = lo.Filter(spans, func(s Span, _ int) bool { return v.Keep(s) })
	}
	children := lo.GroupBy(kept, func(s Span) string { return v.parent(s, byID) })
	var b strings.Builder
	var write func(parent string, depth int)
	write = func(parent string, depth int) {
		for _, s := range order(children[parent]) {
			b.WriteString(strings.Repeat("  ", depth) + v.line(s) + "\n")
			write(s.Trace+s.ID, depth+1)
		}
	}
	write("", 0)
	return b.String()
}

// parent is the nearest ancestor shown; "" if there is none, also for one whose parent was not received.
func (v View) parent(s Span, byID map[string]Span) string {
	for {
		p, ok := byID[s.Trace+s.Parent]
		if s.Parent == "" || !ok {
			return ""
		}
		if v.Keep == nil || v.Keep(p) {
			return p.Trace + p.ID
		}
		s = p
	}
}

func (v View) line(s Span) string {
	var b strings.Builder
	b.WriteString(s.Name)
	if s.Failed {
		b.WriteString(" !")
	}
	for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
		value := s.Attributes[key]
		if v.Mask != nil {
			value = v.Mask(key, value)
		}
		b.WriteString(" " + key + "=" + value)
	}
	return b.String()
}

func order(siblings []Span) []Span {
	sorted := slices.Clone(siblings)
	slices.SortStableFunc(sorted, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	for first := 0; first < len(sorted); {
		last := first + 1
		for last < len(sorted) && ranked(sorted[first]) && ranked(sorted[last]) && sorted[last].Name == sorted[first].Name {
			last++
		}
		slices.SortStableFunc(sorted[first:last], byRank)
		first = last
	}
	return sorted
}

func ranked(s Span) bool { return s.Attributes["weir.rank"] != "" }

func byRank(a, b Span) int {
	rank := func(s Span) int { n, _ := strconv.Atoi(s.Attributes["weir.rank"]); return n }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Attributes["weir.backend"], b.Attributes["weir.backend"]))
}
