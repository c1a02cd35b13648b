package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// Span is byte counts for which the choice is made in the same way.
type Span struct {
	backend.Range
	Choices []dispatch.Choice
	Sizes   []Size // those asked about that lie in it
}

// Spans are all byte counts in order; if sizes were asked about, only the spans that hold one.
func (a Answer) Spans() []Span {
	var all []Span
	least := int64(1)
	for _, s := range a.Decision.Table.Segments() {
		r := backend.Range{Min: least, Max: s.Max}
		within := lo.Filter(a.Sizes, func(n Size, _ int) bool { return r.Contains(n.Bytes) })
		if len(a.Sizes) == 0 || len(within) > 0 {
			all = append(all, Span{r, s.Choices, within})
		}
		least = s.Max + 1
	}
	return all
}

// name is how a span is headed: "1 B to 128 KiB", and the sizes in it that were asked about.
func (s Span) name() string {
	if len(s.Sizes) == 0 {
		return s.String()
	}
	first, last := s.Sizes[0], s.Sizes[len(s.Sizes)-1]
	var asked string
	switch {
	case len(s.Sizes) > 3:
		asked = fmt.Sprintf("%s to %s", first, last)
		if first.Tokens > 0 {
			asked = fmt.Sprintf("%s to %s (%d to %d tokens)", backend.Size(first.Bytes), backend.Size(last.Bytes), first.Tokens, last.Tokens)
		}
	default:
		asked = strings.Join(lo.Map(s.Sizes, func(n Size, _ int) string { return n.String() }), ", ")
	}
	return fmt.Sprintf("%s, asked %s", s.Range, asked)
}

func (s Size) String() string {
	switch s.Tokens {
	case 0:
		return backend.Size(s.Bytes)
	case 1:
		return backend.Size(s.Bytes) + " (1 token)"
	}
	return fmt.Sprintf("%s (%d tokens)", backend.Size(s.Bytes), s.Tokens)
}

// Chosen names who serves the span: "custom for multiples of 16 B, else pynccl".
func (a Answer) Chosen(choices []dispatch.Choice) string {
	if len(choices) == 0 {
		return "no backend"
	}
	parts := lo.Map(choices, func(c dispatch.Choice, _ int) string {
		name := a.Decision.Answers[c.Index].Backend
		if c.Multiple > 1 {
			name += fmt.Sprintf(" for multiples of %d B", c.Multiple)
		}
		return name
	})
	return strings.Join(parts, ", else ")
}

// state is what a candidate does in a span.
type state struct {
	verdict string // chosen, accept (either perhaps "(unmeasured)"), decline, unknown, not_asked
	reasons []backend.Reason
}

func (a Answer) state(i int, s Span) state {
	v := a.Decision.Answers[i].Verdict
	if v.Kind != backend.Accept {
		return state{string(v.Kind), v.Reasons}
	}
	if slices.ContainsFunc(s.Choices, func(c dispatch.Choice) bool { return c.Index == i }) {
		return state{verdict: a.guessed("chosen", i, s.Range)}
	}
	at := s.Min
	if len(s.Sizes) > 0 {
		at = s.Sizes[0].Bytes
	}
	if r, outside := Outside(v, at); outside && !overlaps(v.Ranges, s.Range) {
		return state{"decline", []backend.Reason{r}}
	}
	return state{verdict: a.guessed("accept", i, s.Range)}
}

// guess says whether the bounds of what a candidate accepts of some byte counts were measured on machines of this kind:
// "unmeasured", "partly unmeasured", or "" if they were.
func (a Answer) guess(i int, s backend.Range) string {
	measured, unmeasured := false, false
	for _, r := range a.Decision.Answers[i].Verdict.Ranges {
		if r.Min <= s.Max && s.Min <= r.Max {
			measured, unmeasured = measured || !r.Unmeasured, unmeasured || r.Unmeasured
		}
	}
	switch {
	case !unmeasured:
		return ""
	case measured:
		return "partly unmeasured"
	}
	return "unmeasured"
}

// guessed is guess in brackets behind a word.
func (a Answer) guessed(word string, i int, s backend.Range) string {
	if g := a.guess(i, s); g != "" {
		return word + " (" + g + ")"
	}
	return word
}

// undecided are the backends before the chosen ones whose verdict is unknown.
func (a Answer) undecided(s Span) []string {
	first := len(a.Decision.Answers)
	if len(s.Choices) > 0 {
		first = s.Choices[0].Index
	}
	return lo.FilterMap(a.Decision.Answers[:first], func(x dispatch.Answer, _ int) (string, bool) {
		return x.Backend, x.Verdict.Kind == backend.Unknown
	})
}

func overlaps(ranges []backend.Range, s backend.Range) bool {
	return lo.SomeBy(ranges, func(r backend.Range) bool { return r.Min <= s.Max && s.Min <= r.Max })
}

// Outside is the reason why an accepting backend does not serve a byte count.
func Outside(v backend.Verdict, bytes int64) (backend.Reason, bool) {
	if v.Kind != backend.Accept || lo.SomeBy(v.Ranges, func(r backend.Range) bool { return r.Contains(bytes) }) {
		return backend.Reason{}, false
	}
	reason := backend.Because(backend.Alignment, backend.Size(bytes), RangeList(v.Ranges))
	switch {
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes < r.Min }):
		reason.Code = backend.TooSmall
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes > r.Max }):
		reason.Code = backend.TooLarge
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes < r.Min || bytes > r.Max }):
		reason.Code, reason.Text = backend.Other, "between the sizes that it serves"
	}
	return reason, true
}

// RangeList writes byte ranges.
func RangeList(ranges []backend.Range) string {
	return strings.Join(lo.Map(ranges, func(r backend.Range, _ int) string { return r.String() }), ", ")
}
