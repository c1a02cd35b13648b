package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// hostStaged is for GPUs that do not reach each other (GeForce; ACS on): every rank writes into host memory, where the others
// read. One-shot for small messages, two-shot for larger ones, in one plan.
type hostStaged struct{ shared }

// Info is in windows.go but for the words.
func (hostStaged) Info() backend.Info {
	q := onGPUs(hostStagedRows)
	q.P2P = topology.P2PNone
	return backend.Info{
		Name:         "hoststaged",
		Description:  "GPUs of one host by way of host memory: no peer-to-peer access needed",
		Kind:         plan.KernelKind,
		Priority:     90, // what the GPUs can do among themselves is faster
		Requirements: q,
	}
}

// Accept serves the windows, or less where NCCL has a faster way than without peer access.
func (h hostStaged) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	info := h.Info()
	if req.Group.P2P == topology.P2PReported && req.Group.Worst().Class == topology.NVLink {
		info.Requirements.Windows = windows(besideNVLinkRows)
	}
	return accept(info, req)
}

// hostOneShot is the largest message that is sent whole: beyond it, what crosses PCIe costs more than waiting once more.
// From TestGPUShapes on 2 and 4 H200s; with more ranks a guess.
func hostOneShot(world int) int64 {
	switch {
	case world == 2:
		return 512 << 10
	case world <= 4:
		return 48 << 10
	default:
		return 16 << 10
	}
}

var (
	hostOneShotKernel = algorithm{function: "hoststaged_oneshot", shape: oneShotShape}
	hostTwoShotKernel = algorithm{function: "hoststaged_twoshot", most: 4 << 20, shape: hostTwoShotShape}
)

// hostBuffer has room for a part of the message for every rank and for the sum of one.
func hostBuffer(world int) int64 {
	return halves * int64(world+1) * ceil(hostTwoShotKernel.most/unitBytes, int64(world)) * slotBytes
}

// Plan is the same for all types and ranges of a group.
func (hostStaged) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	world, p := req.Group.WorldSize(), placeOf(req.Group)
	text, err := imageOf("hoststaged", world)
	one := hostOneShotKernel
	one.most = hostOneShot(world)
	return &plan.Kernel{
		Image: text, Launches: append(one.launches(p, 0), hostTwoShotKernel.launches(p, one.most)...),
		BufferBytes: hostBuffer(world), Buffer: plan.HostBuffer, PollsAbort: true, MinDriver: minDriver,
	}, err
}

var _ backend.Backend = hostStaged{}
