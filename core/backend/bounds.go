package backend

import (
	"fmt"

	"github.com/weir-project/weir/core/plain"
)

// What of a backend's reasons is kept: every rank is told of them, and people read them.
const (
	MaxReasons     = 16   // of one answer; one more says how many were left out
	MaxReasonBytes = 1024 // of the words of one reason together

	maxWordBytes = 256 // of what was observed and what is required, each
)

// Bounded is a reason in one line of plain text that is no longer than MaxReasonBytes.
func (r Reason) Bounded() Reason {
	r.Observed = plain.Cut(plain.Line(r.Observed), maxWordBytes)
	r.Required = plain.Cut(plain.Line(r.Required), maxWordBytes)
	r.Text = plain.Cut(plain.Line(r.Text), MaxReasonBytes-len(r.Observed)-len(r.Required))
	return r
}

// Bounded is a verdict with no more reasons than MaxReasons, each bounded, and one that says how many more there were.
func (v Verdict) Bounded() Verdict {
	if len(v.Reasons) == 0 {
		return v
	}
	kept, more := v.Reasons, 0
	if len(kept) > MaxReasons+1 { // where one more fits it is not left out, so a verdict that is bounded stays as it is
		kept, more = kept[:MaxReasons], len(kept)-MaxReasons
	}
	reasons := make([]Reason, 0, MaxReasons+1)
	for _, r := range kept {
		reasons = append(reasons, r.Bounded())
	}
	if more > 0 {
		reasons = append(reasons, Reason{Code: Other, Rank: AnyRank, Text: fmt.Sprintf("and %d more reasons", more)})
	}
	v.Reasons = reasons
	return v
}
