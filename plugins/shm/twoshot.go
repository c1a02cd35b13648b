package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// twoShot is the schedule for larger messages: every rank adds up one part of the message for all, then copies the
// other parts. The ranks wait twice, but each reads everything only about twice, however many they are.
type twoShot struct{ shared }

// Info: any size, since a configuration may disable shm-flat.
func (twoShot) Info() backend.Info {
	return backend.Info{
		Name:         "shm-twoshot",
		Description:  "shared memory, every rank reduces one part of the message: large messages on one host",
		Kind:         plan.ScheduleKind,
		Priority:     100,
		Requirements: onHost(2),
	}
}

// twoShotTile is how much of a message the ranks work on at a time: little enough that what one rank has written is
// still in its second-level cache when the others read it.
const twoShotTile = 256 << 10

// Accept serves every size, since another backend that would serve it better may be disabled.
func (twoShot) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// crowdedTile is the same where ranks outnumber cores: what is in a cache then has gone when a rank gets its core back, and
// every tile costs a round of switching between processes. The slots of all ranks together stay within 32 MiB.
func crowdedTile(world int) int64 {
	tile := int64(16<<20) / int64(world)
	return max(twoShotTile, min(2<<20, tile/64*64))
}

// Plan does not depend on the sizes: longer messages have more tiles.
func (twoShot) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	tile := int64(twoShotTile)
	if isCrowded(req.Group.WorldSize(), req.Group.Cores) {
		tile = crowdedTile(req.Group.WorldSize())
	}
	return allreduce.TwoShot(req.Group.WorldSize(), tile), nil
}

var _ backend.Backend = twoShot{}
