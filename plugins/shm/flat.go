package main

import (
	"context"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// flat is the schedule for small messages: every rank puts its data into its slot and adds up all slots by itself. The
// ranks wait once, but each reads the data of all.
type flat struct{ stateless }

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

// flatRow is the largest message for which flat is as fast as two-shot or faster, for up to so many ranks.
type flatRow struct {
	ranks int
	bytes int64
}

// flatLimits is for ranks with a core each. Measured by running tests/programs/calls with either backend disabled,
// float32: 2, 4 and 8 ranks on 16 cores of a Sapphire Rapids, 2 ranks on 2 cores of an EPYC too. More ranks are a guess.
var flatLimits = []flatRow{
	{1, backend.NoLimit}, // nobody to wait for: a copy
	{2, 8 << 10},
	{4, 2 << 10},
	{8, 1 << 10},
	{maxWorld, 512},
}

// crowdedLimit is for more ranks than cores, where waiting once less means switching between processes once less. Measured
// likewise, 4 and 8 ranks on 2 cores of an EPYC.
const crowdedLimit = 16 << 10

func flatLimit(world, cores int) int64 {
	if world > 1 && cores > 0 && world > cores {
		return crowdedLimit
	}
	row, _ := lo.Find(flatLimits, func(r flatRow) bool { return world <= r.ranks })
	return row.bytes
}

// Accept serves what one wait less is worth more for than the additional reading.
func (flat) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.Range{Min: 1, Max: flatLimit(req.Group.WorldSize(), req.Group.Cores)}), nil
}

// flatTile holds the largest message of any world size of two or more, so that there is always one tile. It is larger
// than the limits need so that the benchmarks can look beyond them.
const flatTile = 64 << 10

// Plan does not depend on the sizes.
func (flat) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Flat(req.Group.WorldSize(), flatTile), nil
}

var _ backend.Backend = flat{}
