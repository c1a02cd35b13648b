package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// direct is two-shot on registered memory: the ranks read one another's buffers, so that nothing is copied into slots.
// They wait three times, so it pays for larger messages only.
type direct struct{ shared }

// Info: from which size direct serves depends on the cores, which requirements do not know.
func (direct) Info() backend.Info {
	q := onHost(2)
	q.Registered = true
	return backend.Info{
		Name:         "shm-direct",
		Description:  "registered memory, every rank reduces one part of the message where it lies: no copies into slots",
		Kind:         plan.ScheduleKind,
		Priority:     120, // before the others, which serve what is too small for it
		Requirements: q,
	}
}

// Accept serves what the copies cost more for than the third wait.
func (d direct) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	if v, yes := tooMany(req.Group.WorldSize()); yes {
		return v, nil
	}
	least := rowFor(req.Group.WorldSize(), req.Group.Cores).direct
	if d.everySize() {
		least = 1
	}
	return backend.Accepted(backend.Range{Min: least, Max: backend.NoLimit}), nil
}

// directTile is how much of a message the ranks work on before they wait for all. It takes no memory.
const directTile = 1 << 20

// Plan does not depend on the sizes.
func (direct) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Direct(req.Group.WorldSize(), directTile), nil
}

var _ backend.Backend = direct{}
