package backend

import (
	"fmt"
	"math"
	"strings"

	"github.com/samber/lo"
)

// Kind is the outcome of asking a backend.
type Kind string

// The outcomes. Unknown means that a fact needed to decide could not be established; at run time it is a decline.
const (
	Accept   Kind = "accept"
	Decline  Kind = "decline"
	Unknown  Kind = "unknown"
	NotAsked Kind = "not_asked"
)

// Verdict is a backend's answer: the byte ranges it accepts, or the reasons why it does not.
type Verdict struct {
	Kind    Kind
	Ranges  []Range  // with Accept: at least one
	Reasons []Reason // with Decline and Unknown: at least one; with Accept: what to know of it, such as that it is slow
}

// NoLimit is the Max of a range without an upper limit.
const NoLimit = math.MaxInt64

// Range is the byte counts from Min to Max, both included, that are multiples of Multiple. A byte count is the size of
// one rank's buffer.
type Range struct {
	Min      int64 // at least 1
	Max      int64 // NoLimit for none
	Multiple int64 // 0 and 1 mean every count

	// Unmeasured says that the bounds are a guess for this kind of machine, as in Window. It changes no choice.
	Unmeasured bool
}

// AllBytes is every byte count.
func AllBytes() []Range { return []Range{{Min: 1, Max: NoLimit}} }

// Contains reports whether the range holds a byte count.
func (r Range) Contains(bytes int64) bool {
	return r.Min <= bytes && bytes <= r.Max && (r.Multiple <= 1 || bytes%r.Multiple == 0)
}

// Validate says what is wrong with the bounds.
func (r Range) Validate() error {
	if r.Min < 1 || r.Max < r.Min || r.Multiple < 0 {
		return fmt.Errorf("impossible byte range: %d to %d, multiples of %d", r.Min, r.Max, r.Multiple)
	}
	if r.Empty() {
		return fmt.Errorf("byte range %d to %d holds no multiple of %d", r.Min, r.Max, r.Multiple)
	}
	return nil
}

// Empty reports whether the range holds no byte count.
func (r Range) Empty() bool {
	if r.Max < max(r.Min, 1) {
		return true
	}
	return r.Multiple > 1 && r.Max/r.Multiple <= (max(r.Min, 1)-1)/r.Multiple
}

// Intersect is the byte counts in both ranges; ok is false if there is none.
func (r Range) Intersect(s Range) (both Range, ok bool) {
	multiple, ok := lcm(r.Multiple, s.Multiple)
	both = Range{Min: max(r.Min, s.Min), Max: min(r.Max, s.Max), Multiple: multiple, Unmeasured: r.Unmeasured || s.Unmeasured}
	return both, ok && !both.Empty()
}

func (r Range) String() string {
	s := fmt.Sprintf("%s and more", Size(r.Min))
	if r.Max != NoLimit {
		s = fmt.Sprintf("%s to %s", Size(r.Min), Size(r.Max))
	}
	if r.Min == 1 && r.Max == NoLimit {
		s = "all sizes"
	}
	switch {
	case r.Multiple > 1 && r.Unmeasured:
		s += fmt.Sprintf(" (multiples of %d B, unmeasured)", r.Multiple)
	case r.Multiple > 1:
		s += fmt.Sprintf(" (multiples of %d B)", r.Multiple)
	case r.Unmeasured:
		s += " (unmeasured)"
	}
	return s
}

// Size is a byte count for people: exact, in the largest binary unit that divides it.
func Size(bytes int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if shift := 30 - 10*i; bytes != 0 && bytes%(1<<shift) == 0 {
			return fmt.Sprintf("%d %s", bytes>>shift, unit)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// Accepted is a verdict that accepts the ranges.
func Accepted(ranges ...Range) Verdict { return Verdict{Kind: Accept, Ranges: ranges} }

// Declined is a verdict that declines for the reasons.
func Declined(reasons ...Reason) Verdict { return Verdict{Kind: Decline, Reasons: reasons} }

// MaxRanges is the number of byte ranges that an acceptance may hold.
const MaxRanges = 256

// Validate says what makes a verdict nonsense: an acceptance without a possible range, an answer without a reason, a
// reason with a code that does not exist, OTHER without a text.
func (v Verdict) Validate() error {
	switch v.Kind {
	case Accept:
		if len(v.Ranges) == 0 {
			return fmt.Errorf("accepted without a byte range")
		}
		if len(v.Ranges) > MaxRanges {
			return fmt.Errorf("accepted %d byte ranges, at most %d are allowed", len(v.Ranges), MaxRanges)
		}
		for _, r := range v.Ranges {
			if err := r.Validate(); err != nil {
				return err
			}
		}
	case Decline, Unknown:
		if len(v.Reasons) == 0 {
			return fmt.Errorf("%s without a reason", v.Kind)
		}
		for _, r := range v.Reasons {
			if _, ok := codes[r.Code]; !ok {
				return fmt.Errorf("unknown reason code %q", r.Code)
			}
			if r.Code == Other && r.Text == "" {
				return fmt.Errorf("reason code %s without a text", r.Code)
			}
		}
	default:
		return fmt.Errorf("unknown verdict %q", v.Kind)
	}
	return nil
}

func (v Verdict) String() string {
	if v.Kind == Accept {
		s := "accept " + strings.Join(lo.Map(v.Ranges, func(r Range, _ int) string { return r.String() }), ", ")
		for _, r := range v.Reasons {
			s += "; " + r.String()
		}
		return s
	}
	parts := append([]string{string(v.Kind)}, lo.Map(v.Reasons, func(r Reason, _ int) string { return r.String() })...)
	return strings.Join(parts, "; ")
}

// lcm is the least common multiple, where 0 and 1 are the same; ok is false if it is more than any byte count.
func lcm(a, b int64) (multiple int64, ok bool) {
	if a <= 1 || b <= 1 {
		return max(a, b), true
	}
	g, h := a, b
	for h != 0 {
		g, h = h, g%h
	}
	if a/g > NoLimit/b {
		return NoLimit, false
	}
	return a / g * b, true
}
