// Package backend is the contract between Weir and one way to all-reduce: what it requires, whether it accepts, and its plan.
package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// Backend is one way to all-reduce. Plugin authors implement it; inside the engine a remote plugin is the same
// interface. All methods may be called concurrently and must return soon after ctx is done.
type Backend interface {
	// Info says what the backend is and requires. It is constant and does no work.
	Info() Info

	// Accept says whether the backend serves the group and class, after Info's Requirements were found met. It is a
	// pure question: asked again with the same Request it answers the same, and it changes nothing. An error means
	// that the question could not be answered; it counts as a decline with the code of ReasonFor(err).
	Accept(ctx context.Context, req Request) (Verdict, error)

	// Plan says how the byte ranges of an accepted request are to be run. The plan must be valid for the group's
	// world size and the same for every rank of it.
	Plan(ctx context.Context, req Request, ranges []Range) (plan.Plan, error)

	// Release ends what the backend holds for a group, if anything. It may be called for a group it never saw.
	Release(ctx context.Context, group string) error
}

// Worker is implemented by a Backend whose plan is plan.Worker: it does the work in its own process.
type Worker interface {
	// Attach starts serving the group whose slots and doorbell are handed out at the agent's socket.
	Attach(ctx context.Context, group, socket string) error
	// Detach stops serving the group.
	Detach(ctx context.Context, group string) error
}

// Info is what a backend advertises.
type Info struct {
	Name         string // unique among the plugins of an engine; lower-case letters, digits and '-'
	Description  string // one line for people
	Kind         plan.Kind
	Priority     int // backends that the configuration does not order are asked from high to low
	Requirements Requirements
}

// Check is Requirements.Check, and declines a group of several hosts unless the plan is a library: nothing else that
// Weir runs crosses hosts. A backend without a kind is another engine's, and only its requirements count.
func (i Info) Check(req Request) Verdict {
	v := i.Requirements.Check(req)
	isMultiHost := func(r Reason) bool { return r.Code == MultiHost }
	if n := req.Group.Hosts(); n > 1 && i.Kind != plan.LibraryKind && i.Kind != "" && !slices.ContainsFunc(v.Reasons, isMultiHost) {
		reason := Because(MultiHost, fmt.Sprintf("%d hosts", n), "one host")
		if v.Kind != Decline {
			return Declined(reason)
		}
		v.Reasons = append(v.Reasons, reason)
	}
	return v
}

// Request is one question: may this backend serve this class of calls of this group?
type Request struct {
	Group collective.Group
	Class collective.Class

	// Hypothetical asks about a machine that is not this one: answer from the facts given and probe nothing.
	Hypothetical bool
}
