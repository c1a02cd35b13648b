package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// oneShot is for small messages: every rank sends its message to all others and adds up all of them. The ranks wait once.
type oneShot struct{ shared }

// Info is in windows.go but for the words.
func (o oneShot) Info() backend.Info {
	return backend.Info{
		Name:         "oneshot",
		Description:  "GPUs of one host that reach each other: every rank sends its message to all, small messages",
		Kind:         plan.KernelKind,
		Priority:     130, // before twoshot, which serves what is too large for it
		Requirements: onGPUs(o.windows(oneShotRows, oneShotKernel.most)),
	}
}

// Accept serves the windows.
func (o oneShot) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	return accept(o.Info(), req)
}

var oneShotKernel = algorithm{function: "oneshot", most: 512 << 10, shape: oneShotShape}

// oneShotBuffer has for every rank room for its message.
func oneShotBuffer(world int) int64 {
	return halves * int64(world) * ceil(oneShotKernel.most, unitBytes) * slotBytes
}

// Plan is the same for all types and ranges of a group.
func (oneShot) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	world := req.Group.WorldSize()
	text, err := imageOf("oneshot", world)
	return &plan.Kernel{
		Image: text, Launches: oneShotKernel.launches(placeOf(req.Group), 0), BufferBytes: oneShotBuffer(world), Buffer: plan.DeviceBuffer,
		PollsAbort: true, MinDriver: minDriver,
	}, err
}

var _ backend.Backend = oneShot{}
