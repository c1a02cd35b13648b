// Package dispatch asks backends in cascade order and turns their verdicts into a decision: which backend serves which byte count.
package dispatch

import (
	"slices"
	"sort"

	"github.com/weir-project/weir/core/backend"
)

// None is the choice where no backend serves.
const None = -1

// Segment is a range of byte counts for which the choice is made in the same way.
type Segment struct {
	Max     int64    // last byte count of the segment; the first is one more than the segment before
	Choices []Choice // tried in order, each serving a byte count that none before it serves
}

// Choice is a backend that serves the byte counts that are multiples of Multiple (0 and 1: all).
type Choice struct {
	Multiple int64
	Index    int // of the candidate
}

// Table says for every byte count which candidate serves it. It is immutable, so that any number of threads may look
// a count up without a lock.
type Table struct {
	segments []Segment
}

// NewTable builds the table of a list of accepted ranges: for every byte count the first candidate in order that
// accepts it. accepted[i] is nil for a candidate that does not accept.
func NewTable(accepted [][]backend.Range) *Table {
	bounds := []int64{1}
	for _, ranges := range accepted {
		for _, r := range ranges {
			if r.Empty() {
				continue
			}
			bounds = append(bounds, max(r.Min, 1))
			if r.Max < backend.NoLimit {
				bounds = append(bounds, r.Max+1)
			}
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	var raw, pruned Table
	for i, min := range bounds {
		max := int64(backend.NoLimit)
		if i+1 < len(bounds) {
			max = bounds[i+1] - 1
		}
		raw.add(Segment{Max: max, Choices: choicesAt(accepted, min)})
	}
	min := int64(1)
	for _, s := range raw.segments {
		pruned.add(Segment{Max: s.Max, Choices: prune(s.Choices, min, s.Max)})
		min = s.Max + 1
	}
	return &pruned
}

// choicesAt are the candidates for the byte counts of the segment that begins at min.
func choicesAt(accepted [][]backend.Range, min int64) []Choice {
	var choices []Choice
	for i, ranges := range accepted {
		for _, r := range ranges {
			if r.Empty() || min < r.Min || r.Max < min {
				continue
			}
			choices = append(choices, Choice{Multiple: r.Multiple, Index: i})
			if r.Multiple <= 1 {
				return choices
			}
		}
	}
	return choices
}

// prune leaves out choices that serve no byte count from min to max, because none is a multiple or those before take
// them all.
func prune(choices []Choice, min, max int64) []Choice {
	var kept []Choice
	for _, c := range choices {
		if left(kept, c.Multiple, min, max) {
			kept = append(kept, c)
		}
	}
	return kept
}

// left reports whether a multiple of a number from min to max is a multiple of none of the choices'. The search is
// short: n choices, none of which takes all, take fewer than 2^n multiples in a row, and far fewer in practice.
func left(choices []Choice, multiple, min, max int64) bool {
	if slices.ContainsFunc(choices, func(c Choice) bool { return c.Multiple <= 1 || multiple > 1 && multiple%c.Multiple == 0 }) {
		return false
	}
	if multiple < 1 {
		multiple = 1
	}
	first, last := (min-1)/multiple+1, max/multiple
	for i := int64(0); i <= last-first; i++ { // counted from 0: last may be the largest int64
		if !slices.ContainsFunc(choices, func(c Choice) bool { return (first+i)*multiple%c.Multiple == 0 }) {
			return true
		}
	}
	return false
}

func (t *Table) add(s Segment) {
	if n := len(t.segments); n > 0 && slices.Equal(t.segments[n-1].Choices, s.Choices) {
		t.segments[n-1].Max = s.Max
		return
	}
	t.segments = append(t.segments, s)
}

// TableOf rebuilds a table from the segments that Segments gave. The last segment must end at backend.NoLimit.
func TableOf(segments []Segment) *Table { return &Table{segments: segments} }

// Segments are the table's rows in order.
func (t *Table) Segments() []Segment { return t.segments }

// Lookup is the index of the candidate that serves a byte count of 1 or more, or None.
func (t *Table) Lookup(bytes int64) int {
	low, high := 0, len(t.segments)
	for high-low > 4 { // a few rows are faster walked through
		if mid := (low + high) / 2; bytes <= t.segments[mid-1].Max {
			high = mid
		} else {
			low = mid
		}
	}
	for i := low; i < high; i++ {
		if s := &t.segments[i]; bytes <= s.Max {
			for _, c := range s.Choices {
				if c.Multiple <= 1 || bytes%c.Multiple == 0 {
					return c.Index
				}
			}
			return None
		}
	}
	return None
}

// Complete reports whether every byte count is served.
func (t *Table) Complete() bool { return t.completeFor(1) }

// completeFor reports whether every multiple of an element's size is served.
func (t *Table) completeFor(element int64) bool {
	min := int64(1)
	for _, s := range t.segments {
		if left(s.Choices, element, min, s.Max) {
			return false
		}
		min = s.Max + 1
	}
	return true
}

// Ranges are the byte counts that one candidate serves, in order. Where a candidate before it takes the multiples of a
// number, those are included.
func (t *Table) Ranges(index int) []backend.Range {
	var ranges []backend.Range
	min := int64(1)
	for _, s := range t.segments {
		for _, c := range s.Choices {
			if c.Index != index {
				continue
			}
			next := backend.Range{Min: min, Max: s.Max, Multiple: c.Multiple}
			before := slices.IndexFunc(ranges, func(r backend.Range) bool { return r.Max == min-1 && r.Multiple == c.Multiple })
			if before < 0 {
				ranges = append(ranges, next)
			} else {
				ranges[before].Max = s.Max
			}
		}
		min = s.Max + 1
	}
	return ranges
}

// Chosen are the candidates that serve at least one byte count, in ascending order.
func (t *Table) Chosen() []int {
	var chosen []int
	for _, s := range t.segments {
		for _, c := range s.Choices {
			chosen = append(chosen, c.Index)
		}
	}
	sort.Ints(chosen)
	return slices.Compact(chosen)
}
