package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// twoShot is for larger messages: every rank adds up one part of the message for all and sends them the sum. The ranks wait
// twice, but each sends everything only about twice, however many they are.
type twoShot struct{ shared }

// Info is in windows.go but for the words.
func (s twoShot) Info() backend.Info {
	return backend.Info{
		Name:         "twoshot",
		Description:  "GPUs of one host that reach each other: every rank adds up one part of the message, larger messages",
		Kind:         plan.KernelKind,
		Priority:     120,
		Requirements: onGPUs(s.windows(twoShotRows, twoShotKernel.most)),
	}
}

// Accept serves the windows.
func (s twoShot) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	return accept(s.Info(), req)
}

var twoShotKernel = algorithm{function: "twoshot", most: 4 << 20, shape: twoShotShape}

// twoShotBuffer has for every rank room for a part of the message and for the sum of one.
func twoShotBuffer(world int) int64 {
	return halves * 2 * int64(world) * ceil(twoShotKernel.most/unitBytes, int64(world)) * slotBytes
}

// Plan is the same for all types and ranges of a group.
func (twoShot) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	world := req.Group.WorldSize()
	text, err := imageOf("twoshot", world)
	return &plan.Kernel{
		Image: text, Launches: twoShotKernel.launches(placeOf(req.Group), 0), BufferBytes: twoShotBuffer(world), Buffer: plan.DeviceBuffer,
		PollsAbort: true, MinDriver: minDriver,
	}, err
}

var _ backend.Backend = twoShot{}
