// Package explain writes what a cascade answers about a group: as tables, as JSON, side by side, and as a difference.
package explain

import (
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/dispatch"
)

// Answer is what one profile says about a group and request class.
type Answer struct {
	Profile  string // weir, or the name of another engine's profile
	Assumes  string // what the profile takes for granted; "" for nothing
	Topology Topology
	Request  backend.Request
	Decision dispatch.Decision
	Sizes    []Size // message sizes that were asked about; none: all
	Model    *Model // nil if none was named

	Changes  [][]string // by position in Decision.Answers: what would have to be different to accept
	Remarks  [][]string // likewise: what is to be said beside the reasons
	Warnings []string   // of the topology's reading
	Findings []diagnose.Finding
}

// Topology says where the facts come from.
type Topology struct {
	Source   string // this machine, the name of a preset or a file, or standard input
	Format   string // of a text; "" if it is none
	Complete string // yes, no or unknown: whether all GPUs of the host are there
	Devices  []int  // the group's, by their numbers on each host
}

// Size is a message size that was asked about.
type Size struct {
	Bytes  int64
	Tokens int // 0 if it was not asked for in tokens
}

// Model is the model that the sizes are of.
type Model struct {
	Name       string
	Hidden     int
	AllReduces int // of one forward pass
}

// New completes an answer of which everything but Changes is there. The candidates are those that were asked.
func New(a Answer, candidates []dispatch.Candidate) Answer {
	a.Changes = lo.Map(a.Decision.Answers, func(x dispatch.Answer, _ int) []string {
		if x.Verdict.Kind != backend.Decline && x.Verdict.Kind != backend.Unknown {
			return nil
		}
		c, ok := lo.Find(candidates, func(c dispatch.Candidate) bool { return c.Plugin == x.Plugin && c.Info.Name == x.Backend })
		if !ok || c.Fault != nil {
			return nil
		}
		return changes(c, a.Request, x.Verdict)
	})
	if a.Remarks == nil {
		a.Remarks = make([][]string, len(a.Decision.Answers))
	}
	return a
}

// changes are what the gates ask for, then what the requirements do. It is nothing if the backend itself declined, for
// reasons of its own.
func changes(c dispatch.Candidate, req backend.Request, v backend.Verdict) []string {
	gates := lo.Map(c.Gates, func(r backend.Reason, _ int) string {
		if r.Code == backend.DisabledByUser {
			return "it were switched on: " + r.Required
		}
		return "it were known: " + r.Required
	})
	if lo.SomeBy(v.Reasons, func(r backend.Reason) bool { return r.Code == backend.DisabledByUser && r.Required == "" }) {
		gates = append(gates, "the configuration did not disable it")
	}
	if lo.SomeBy(v.Reasons, func(r backend.Reason) bool { return r.Code == backend.Platform }) {
		return nil // for another machine altogether
	}
	check := c.Info.Check(req)
	needed := c.Info.Requirements.WouldAccept(req)
	switch {
	case check.Kind == backend.Accept:
		return gates
	case len(needed) == 0:
		return nil
	}
	return append(gates, needed...)
}

// Unserved reports whether some byte count is served by nobody.
func (a Answer) Unserved() bool { return !a.Decision.Table.Complete() }
