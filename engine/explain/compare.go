package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// Comparison is the answers of several profiles to one question.
type Comparison []Answer

// commonSpans are byte counts for which no profile's choice changes; if sizes were asked about, those that hold one.
func (c Comparison) commonSpans() []Span {
	var ends []int64
	for _, a := range c {
		for _, s := range a.Decision.Table.Segments() {
			ends = append(ends, s.Max)
		}
	}
	slices.Sort(ends)
	var all []Span
	least := int64(1)
	for _, end := range slices.Compact(ends) {
		r := backend.Range{Min: least, Max: end}
		within := lo.Filter(c[0].Sizes, func(n Size, _ int) bool { return r.Contains(n.Bytes) })
		if len(c[0].Sizes) == 0 || len(within) > 0 {
			all = append(all, Span{Range: r, Sizes: within})
		}
		if end == math.MaxInt64 {
			break
		}
		least = end + 1
	}
	return all
}

// choicesAt are the choices of the segment that holds a byte count.
func choicesAt(t *dispatch.Table, bytes int64) []dispatch.Choice {
	s, _ := lo.Find(t.Segments(), func(s dispatch.Segment) bool { return bytes <= s.Max })
	return s.Choices
}

// Text writes who would run what, span by span, and then each profile's answers.
func (c Comparison) Text(w io.Writer) error {
	var b strings.Builder
	first := c[0]
	first.Profile = "" // the facts are the same for all
	first.facts(&b)
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SIZES\t"+strings.Join(lo.Map(c, func(a Answer, _ int) string { return strings.ToUpper(a.Profile) }), "\t"))
	for _, s := range c.commonSpans() {
		cells := lo.Map(c, func(a Answer, _ int) string { return a.Chosen(choicesAt(a.Decision.Table, s.Min)) })
		fmt.Fprintf(t, "%s\t%s\n", s.name(), strings.Join(cells, "\t"))
	}
	_ = t.Flush() // a strings.Builder does not fail
	c.open(&b)
	for _, a := range c {
		fmt.Fprintf(&b, "\nwhy %s runs that:\n", a.Profile)
		a.whyTable(&b)
		for i, x := range a.Decision.Answers {
			for _, r := range a.Remarks[i] {
				fmt.Fprintf(&b, "  note on %s: %s\n", x.Backend, r)
			}
		}
	}
	for _, warning := range first.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s\n", warning)
	}
	Findings(&b, first.Findings)
	_, err := io.WriteString(w, b.String())
	return err
}

// open writes who may run some of the sizes instead, once what is unknown is known.
func (c Comparison) open(b *strings.Builder) {
	for _, a := range c {
		var open []string
		for _, s := range c.commonSpans() {
			open = append(open, a.undecided(Span{Choices: choicesAt(a.Decision.Table, s.Min)})...)
		}
		if len(open) > 0 {
			fmt.Fprintf(b, "(or, if what is unknown turns out well, %s: %s)\n", a.Profile, strings.Join(lo.Uniq(open), ", "))
		}
	}
}

// whyTable is one row for each candidate and reason, whatever the size.
func (a Answer) whyTable(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  BACKEND\tVERDICT\tSERVES, OR WHY NOT")
	for i, x := range a.Decision.Answers {
		lines := lo.Map(x.Verdict.Reasons, func(r backend.Reason, _ int) string { return r.String() })
		if x.Verdict.Kind == backend.Accept {
			lines = []string{"nothing: others before it serve its " + RangeList(x.Verdict.Ranges)}
			if served := a.Decision.Served(i); len(served) > 0 {
				lines = []string{RangeList(served)}
			}
		}
		if len(a.Changes[i]) > 0 {
			lines = append(lines, "would accept if "+strings.Join(a.Changes[i], ", and "))
		}
		for j, line := range lines {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", lo.Ternary(j == 0, x.Backend, ""), lo.Ternary(j == 0, string(x.Verdict.Kind), ""), line)
		}
	}
	_ = t.Flush()
}

// comparisonJSON is a comparison for programs. Where a backend serves only multiples of a number, it is the one named.
type comparisonJSON struct {
	Ranges   []comparedJSON  `json:"ranges"`
	Profiles map[string]JSON `json:"profiles"`
}

type comparedJSON struct {
	rangeJSON
	Backends map[string]*string `json:"backends"`
}

// JSON is the comparison for programs.
func (c Comparison) JSON() any {
	x := comparisonJSON{Profiles: map[string]JSON{}}
	for _, a := range c {
		x.Profiles[a.Profile] = a.JSON()
	}
	for _, s := range c.commonSpans() {
		row := comparedJSON{toRange(s.Range, 0), map[string]*string{}}
		for _, a := range c {
			row.Backends[a.Profile] = nil
			if choices := choicesAt(a.Decision.Table, s.Min); len(choices) > 0 {
				row.Backends[a.Profile] = a.name(choices[0].Index)
			}
		}
		x.Ranges = append(x.Ranges, row)
	}
	return x
}
