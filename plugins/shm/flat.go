package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// flat is the schedule for small messages: every rank puts its data into its slot and adds up all slots by itself. The
// ranks wait once, but each reads the data of all.
type flat struct{ stateless }

// Info says up to which size one wait less is worth more than the additional reading.
func (flat) Info() backend.Info {
	q := onHost(1)
	q.Windows = flatWindows
	return backend.Info{
		Name:         "shm-flat",
		Description:  "shared memory, every rank reduces the whole message: small messages on one host",
		Kind:         plan.ScheduleKind,
		Priority:     110, // before shm-twoshot, which serves the rest
		Requirements: q,
	}
}

// flatWindows are the byte counts up to which flat is as fast as two-shot or faster. Measured with this package's
// benchmarks, float32, a core for every rank, on 16 cores of a Sapphire Rapids; above 12 ranks they are a guess. They
// depend on how fast a rank adds up, so measure again when that changes.
var flatWindows = []backend.Window{
	{WorldSizes: backend.Span{Min: 1, Max: 1}, Range: upTo(backend.NoLimit)}, // nobody to wait for: a copy
	{WorldSizes: backend.Span{Min: 2, Max: 4}, Range: upTo(512)},
	{WorldSizes: backend.Span{Min: 5, Max: 8}, Range: upTo(256)},
	{WorldSizes: backend.Span{Min: 9, Max: 12}, Range: upTo(128)},
	{WorldSizes: backend.Span{Min: 13, Max: maxWorld}, Range: upTo(128), Unmeasured: true},
}

func upTo(bytes int64) backend.Range { return backend.Range{Min: 1, Max: bytes} }

// flatTile holds the largest message of any world size of two or more, so that there is always one tile. It is larger
// than the limits need so that the benchmarks can look beyond them.
const flatTile = 64 << 10

// Plan does not depend on the sizes.
func (flat) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.Flat(req.Group.WorldSize(), flatTile), nil
}

var _ backend.Backend = flat{}
