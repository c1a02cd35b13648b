package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// pipelined is two-shot in parts: a rank fills the next part before it waits for this one. With many ranks, each with a
// core of its own, somebody is always late, and the others then have something else to do.
type pipelined struct{ shared }

// Info: from which size it serves depends on the cores, which requirements do not know.
func (pipelined) Info() backend.Info {
	return backend.Info{
		Name:         "shm-pipelined",
		Description:  "shared memory, as shm-twoshot with each tile in parts: very large messages of many ranks with a core each",
		Kind:         plan.ScheduleKind,
		Priority:     105,       // between shm-flat and shm-twoshot
		Requirements: onHost(3), // two ranks have nobody else to wait for
	}
}

// Accept serves what has parts enough.
func (p pipelined) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	return accept(p.shared, req.Group, rowFor(req.Group.WorldSize(), req.Group.Cores).pipelined)
}

// The tile and its parts. Larger tiles than two-shot's, so that the parts of the ranks are not too short.
const (
	pipelinedTile  = 512 << 10
	pipelinedParts = 4
)

// Plan does not depend on the sizes.
func (pipelined) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return allreduce.PipelinedTwoShot(req.Group.WorldSize(), pipelinedTile, pipelinedParts), nil
}

var _ backend.Backend = pipelined{}
