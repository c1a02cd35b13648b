package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
)

// Difference is what changed between two explanations.
type Difference struct {
	Questions []string // how the questions differ, which may be why the answers do
	Verdicts  []string // "custom: was accepted, now declined (LINK_NOT_FULL: SYS, …)"
	Chosen    []string // "1 B to 8 MiB: was custom, now pynccl"
}

// Changed reports whether a decision changed.
func (d Difference) Changed() bool { return len(d.Verdicts)+len(d.Chosen) > 0 }

// Diff compares two explanations, the older first.
func Diff(before, after JSON) Difference {
	return Difference{Questions: questions(before, after), Verdicts: verdicts(before, after), Chosen: chosen(before, after)}
}

// Text writes the difference for people.
func (d Difference) Text(w io.Writer) error {
	var b strings.Builder
	for _, q := range d.Questions {
		fmt.Fprintf(&b, "the question differs: %s\n", q)
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"verdicts", d.Verdicts}, {"chosen", d.Chosen}} {
		if len(part.lines) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", part.title, strings.Join(part.lines, "\n  "))
		}
	}
	if !d.Changed() {
		b.WriteString("no decision changed\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func questions(a, b JSON) []string {
	var all []string
	for _, x := range []struct {
		what          string
		before, after any
	}{
		{"profile", a.Profile, b.Profile},
		{"ranks", a.Group.WorldSize, b.Group.WorldSize},
		{"devices", fmt.Sprint(a.Group.Devices), fmt.Sprint(b.Group.Devices)},
		{"hosts", max(a.Group.Hosts, 1), max(b.Group.Hosts, 1)},
		{"worst link", a.Group.Worst, b.Group.Worst},
		{"full NVLink", a.Group.FullNVLink, b.Group.FullNVLink},
		{"P2P", a.Group.P2P, b.Group.P2P},
		{"multicast", a.Group.Multicast, b.Group.Multicast},
		{"memory", a.Request.Memory, b.Request.Memory},
		{"dtype", a.Request.DataType, b.Request.DataType},
		{"op", a.Request.Op, b.Request.Op},
		{"captured", a.Request.Captured, b.Request.Captured},
		{"registered", a.Request.Registered, b.Request.Registered},
	} {
		if x.before != x.after {
			all = append(all, fmt.Sprintf("%s was %v, now %v", x.what, x.before, x.after))
		}
	}
	return all
}

var participle = map[backend.Kind]string{
	backend.Accept: "accepted", backend.Decline: "declined", backend.Unknown: "unknown", backend.NotAsked: "not asked",
}

func verdicts(a, b JSON) []string {
	var all []string
	find := func(x JSON, name string) (candidateJSON, bool) {
		return lo.Find(x.Candidates, func(c candidateJSON) bool { return c.Backend == name })
	}
	for _, old := range a.Candidates {
		now, ok := find(b, old.Backend)
		was, is := describe(old), describe(now)
		switch {
		case !ok:
			all = append(all, fmt.Sprintf("%s: was %s, now not there", old.Backend, was))
		case old.Verdict != now.Verdict:
			all = append(all, fmt.Sprintf("%s: was %s, now %s", old.Backend, participle[old.Verdict], is))
		case was != is:
			all = append(all, fmt.Sprintf("%s: was %s, now %s", old.Backend, was, is))
		}
	}
	for _, now := range b.Candidates {
		if _, ok := find(a, now.Backend); !ok {
			all = append(all, fmt.Sprintf("%s: was not there, now %s", now.Backend, describe(now)))
		}
	}
	return all
}

// describe is a verdict with what counts in it: the ranges, or the reasons without their texts.
func describe(c candidateJSON) string {
	s := participle[c.Verdict]
	var more []string
	for _, r := range c.Ranges {
		more = append(more, r.toRange().String())
	}
	for _, r := range c.Reasons {
		reason := backend.Reason{Code: r.Code, Observed: r.Observed, Required: r.Required, Rank: backend.AnyRank}
		if r.Rank != nil {
			reason.Rank = *r.Rank
		}
		more = append(more, reason.String())
	}
	if len(more) > 0 {
		s += " (" + strings.Join(more, "; ") + ")"
	}
	return s
}

func (r rangeJSON) toRange() backend.Range {
	x := backend.Range{Min: r.Min, Max: math.MaxInt64, Multiple: r.Multiple, Unmeasured: r.Unmeasured}
	if r.Max != nil {
		x.Max = *r.Max
	}
	return x
}

// chosen compares who serves what, range by range; neighbouring ranges with the same change are one.
func chosen(a, b JSON) []string {
	type change struct {
		backend.Range
		was, now string
	}
	var all []change
	bounds := append(lowerBounds(a), lowerBounds(b)...)
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	for i, least := range bounds {
		most := int64(math.MaxInt64)
		if i+1 < len(bounds) {
			most = bounds[i+1] - 1
		}
		was, now := servedAt(a, least), servedAt(b, least)
		if was == now {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Max == least-1 && all[n-1].was == was && all[n-1].now == now {
			all[n-1].Max = most
			continue
		}
		all = append(all, change{backend.Range{Min: least, Max: most}, was, now})
	}
	return lo.Map(all, func(c change, _ int) string { return fmt.Sprintf("%s: was %s, now %s", c.Range, c.was, c.now) })
}

func lowerBounds(x JSON) []int64 {
	var all []int64
	for _, c := range x.Chosen {
		r := c.toRange()
		all = append(all, max(r.Min, 1))
		if r.Max < math.MaxInt64 {
			all = append(all, r.Max+1)
		}
	}
	return all
}

// servedAt names who serves the range that a byte count lies in.
func servedAt(x JSON, bytes int64) string {
	var parts []string
	for _, c := range x.Chosen {
		r := c.toRange()
		if bytes < r.Min || r.Max < bytes {
			continue
		}
		name := "no backend"
		if c.Backend != nil {
			name = *c.Backend
		}
		if r.Multiple > 1 {
			name += fmt.Sprintf(" for multiples of %d B", r.Multiple)
		}
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "no backend"
	}
	return strings.Join(parts, ", else ")
}
