// Command backend-triton is a plugin whose GPU kernel is Triton's: the engine takes any compiler's PTX or cubin.
//
// kernel.py is the kernel, build.py compiles it to oneshot.ptx and writes down in oneshot.json how it is to be launched.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/plugin"
)

//go:embed oneshot.ptx oneshot.json
var built embed.FS

func main() {
	t, err := load(built)
	if err != nil {
		fmt.Fprintf(os.Stderr, "backend-triton: %s\n", err)
		os.Exit(1)
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: "triton", Version: "0.1.0", Backends: []backend.Backend{t}}))
}

// triton is what build.py has made.
type triton struct {
	ptx    []byte
	launch struct {
		Function  string          `json:"function"`
		Threads   int             `json:"threads"`   // of a block, which is one Triton program
		Shared    int             `json:"shared"`    // bytes of dynamic shared memory of a block
		Part      int64           `json:"part"`      // elements of the largest message
		Block     int64           `json:"block"`     // elements of a block
		Arguments []plan.Argument `json:"arguments"` // Triton cannot take weir_call: it takes its fields
	}
}

func load(files fs.FS) (*triton, error) {
	t := &triton{}
	text, err := fs.ReadFile(files, "oneshot.json")
	if err == nil {
		err = json.Unmarshal(text, &t.launch)
	}
	if err == nil {
		t.ptx, err = fs.ReadFile(files, "oneshot.ptx")
	}
	return t, err
}

const elementBytes = 4

// most is the largest message, in bytes.
func (t *triton) most() int64 { return t.launch.Part * elementBytes }

// Info says what the backend is and what it needs.
func (t *triton) Info() backend.Info {
	return backend.Info{
		Name:        "triton",
		Description: "GPUs of one host that reach each other, a one-shot kernel compiled by Triton",
		Kind:        plan.KernelKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 2, Max: 8}},
			Memories:      []collective.Memory{collective.CUDA},
			DataTypes:     []collective.DataType{collective.Float32},
			Ops:           []collective.Op{collective.Sum},
			Scope:         backend.OneHost,
			P2P:           topology.P2PVerified,
			Vendors:       []string{"nvidia"},
			Capabilities:  []string{"8.0+"},
			Windows:       []backend.Window{{Range: backend.Range{Min: 1, Max: t.most()}, Unmeasured: true}},
			InFlight:      1,
			Deterministic: true, // sums are added in rank order
		},
	}
}

// Accept says yes to every message size: the engine has checked the requirements and cuts off what lies outside the windows.
func (*triton) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan hands over the PTX with a launch table: as many blocks as the message fills, rounded up to a power of two.
func (t *triton) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const packetBytes, inboxes = 8, 2
	p := &plan.Kernel{
		Image:       t.ptx,
		BufferBytes: inboxes * int64(req.Group.WorldSize()) * t.launch.Part * packetBytes,
		Buffer:      plan.DeviceBuffer,
		PollsAbort:  true,
		MinDriver:   "11.0", // takes PTX 7.0
	}
	least := int64(1)
	for grid := int64(1); least <= t.most(); grid *= 2 {
		upper := min(grid*t.launch.Block*elementBytes, t.most())
		p.Launches = append(p.Launches, plan.Launch{
			DataType: collective.Float32.String(), Min: least, Max: upper, Function: t.launch.Function,
			Grid: int(grid), Block: t.launch.Threads, SharedBytes: t.launch.Shared, Arguments: t.launch.Arguments,
		})
		least = upper + 1
	}
	return p, nil
}

// Release has nothing to end.
func (*triton) Release(context.Context, string) error { return nil }
