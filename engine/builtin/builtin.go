// Package builtin is the engine's own backend for host memory: for what no plugin serves.
package builtin

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// The names by which it is configured and shown. No plugin may offer a backend of this name.
const (
	Name   = "builtin"
	Plugin = "weir" // in place of one
)

// Candidate is the backend for a cascade, which asks it last and only if something is left for it.
func Candidate() dispatch.Candidate {
	b := plain{}
	return dispatch.Candidate{Plugin: Plugin, Info: b.Info(), Backend: b, Reserve: true}
}

// plain is one schedule for every size, type and op, and as many ranks as a schedule may have. It is meant to be right rather than fast.
type plain struct{}

// Info asks for nothing but ranks that share memory. It adds in rank order.
func (plain) Info() backend.Info {
	return backend.Info{
		Name:        Name,
		Description: "the engine's own: shared memory, every rank reduces the whole message. Not fast; for what no plugin serves",
		Kind:        plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 1, Max: plan.MaxWorld}},
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true,
			Order:         backend.RankOrder,
		},
	}
}

// Accept takes all that there is.
func (plain) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// tile is so small that the slots of many ranks do not take much memory.
const tile = 16 << 10

// Plan depends on the number of ranks only.
func (plain) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Flat(req.Group.WorldSize(), tile), nil
}

// Release has nothing to end.
func (plain) Release(context.Context, string) error { return nil }
