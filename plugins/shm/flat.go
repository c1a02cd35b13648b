package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// flat is the schedule for small messages: every rank puts its data into its slot and adds up all slots by itself. The
// ranks wait once, but each reads the data of all.
type flat struct{ shared }

// Info: up to which size flat serves depends on the cores, which requirements do not know.
func (flat) Info() backend.Info {
	return backend.Info{
		Name:         "shm-flat",
		Description:  "shared memory, every rank reduces the whole message: small messages on one host",
		Kind:         plan.ScheduleKind,
		Priority:     110, // before shm-twoshot, which serves the rest
		Requirements: onHost(1),
	}
}

// Accept serves what one wait less is worth more for than the additional reading.
func (f flat) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	if v, yes := tooMany(req.Group.WorldSize()); yes {
		return v, nil
	}
	world, most := req.Group.WorldSize(), rowFor(req.Group.WorldSize(), req.Group.Cores).flat
	if world == 1 || f.everySize() {
		most = backend.NoLimit // nobody to wait for: a copy
	}
	return backend.Accepted(backend.Range{Min: 1, Max: most}), nil
}

// flatTile holds the largest message of any world size of two or more, so that there is always one tile. It is larger
// than the limits need so that the benchmarks can look beyond them.
const flatTile = 64 << 10

// Plan does not depend on the sizes.
func (flat) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Flat(req.Group.WorldSize(), flatTile), nil
}

var _ backend.Backend = flat{}
