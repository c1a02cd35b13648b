// Command backend-kernel is a plugin with a GPU kernel of its own: it hands over the kernel's PTX and how it is launched, and
// every rank runs it on its caller's stream.
//
// The kernel is sum.cu. Whatever compiles CUDA makes the PTX, such as
//
//	nvcc -ptx -arch=compute_80 -I FOLDER_OF_weir_kernel.h -o sum.ptx sum.cu
package main

import (
	"context"
	_ "embed" // for the PTX
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/plugin"
)

//go:embed sum.ptx
var image []byte

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{Name: "kernel", Version: "0.1.0", Backends: []backend.Backend{allReduce{}}}))
}

// most is the largest message, in bytes: a one-shot kernel is for small ones.
const most = 64 << 10

type allReduce struct{}

// Info says what the backend is and what it needs. The engine checks the requirements without asking.
func (allReduce) Info() backend.Info {
	return backend.Info{
		Name:        "kernel",
		Description: "GPUs of one host that reach each other, a one-shot kernel",
		Kind:        plan.KernelKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 2, Max: 8}},
			Memories:      []collective.Memory{collective.CUDA},
			DataTypes:     []collective.DataType{collective.Float32},
			Ops:           []collective.Op{collective.Sum},
			Scope:         backend.OneHost,
			P2P:           topology.P2PVerified, // the kernel stores into the memory of the other GPUs
			Vendors:       []string{"nvidia"},
			Capabilities:  []string{"8.0+"}, // what the PTX is compiled for
			Windows:       []backend.Window{{Range: backend.Range{Min: 1, Max: most}, Unmeasured: true}},
			InFlight:      1,
			Deterministic: true, // sums are added in rank order
		},
	}
}

// Accept says yes to every message size: the engine has checked the requirements and cuts off what lies outside the windows.
func (allReduce) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan hands over the PTX, the buffer that the ranks share, and the launch table. A row is a range of byte counts: here small
// messages get a block of their own.
func (allReduce) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const threads, few = 256, 2 << 10 // a thread has 8 bytes at a time
	const inboxes, slotBytes = 2, 16  // a slot holds 8 bytes of data
	return &plan.Kernel{
		Image:       image,
		BufferBytes: inboxes * int64(req.Group.WorldSize()) * most / 8 * slotBytes,
		Buffer:      plan.DeviceBuffer,
		PollsAbort:  true,
		MinDriver:   "11.0", // takes PTX 7.0
		Launches: []plan.Launch{
			{DataType: "float32", Min: 1, Max: few, Function: "sum_f32", Grid: 1, Block: threads},
			{DataType: "float32", Min: few + 1, Max: most, Function: "sum_f32", Grid: 16, Block: threads},
		},
	}, nil
}

// Release has nothing to end.
func (allReduce) Release(context.Context, string) error { return nil }
