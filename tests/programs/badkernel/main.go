// Command badkernel is a plugin whose GPU kernel has one fault, chosen by the setting `fault`.
package main

import (
	"bytes"
	"context"
	_ "embed" // for the kernels
	"fmt"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
)

//go:embed bad.ptx
var image []byte

func main() {
	b := &bad{}
	os.Exit(plugin.Serve(plugin.Plugin{
		Name: "badkernel", Version: "1", Backends: []backend.Backend{b},
		Configure: func(s plugin.Settings) error { return s.Decode(&b.settings) },
	}))
}

// settings are the plugin's part of the configuration.
type settings struct {
	Fault string `json:"fault"` // a function of bad.cu, or one of what Plan knows
	Image string `json:"image"` // in place of the kernels here: a file that has every fault as its function sum_f32
}

type bad struct{ settings }

// Info puts the backend before all others.
func (*bad) Info() backend.Info {
	return backend.Info{Name: "bad", Kind: plan.KernelKind, Priority: 1000, Requirements: backend.Requirements{
		Memories: []collective.Memory{collective.CUDA}, DataTypes: []collective.DataType{collective.Float32}, Ops: []collective.Op{collective.Sum},
	}}
}

func (b *bad) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.Range{Min: 1, Max: most}), nil
}

// most is the largest message; a packet of an element has 16 bytes in each of the two inboxes.
const most = 64 << 10

func (b *bad) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	p := &plan.Kernel{
		Image: image, BufferBytes: int64(2 * 16 * req.Group.WorldSize() * most / 4), Buffer: plan.DeviceBuffer, PollsAbort: true,
		Launches: []plan.Launch{{DataType: "float32", Min: 1, Max: most, Function: b.Fault, Grid: 1, Block: 256}},
	}
	l, right := &p.Launches[0], "none"
	if b.Image != "" {
		own, err := os.ReadFile(b.Image)
		if err != nil {
			return nil, err
		}
		right = "sum_f32"
		p.Image, l.Function = own, right
	}
	switch b.Fault {
	case "needs a newer driver":
		p.MinDriver, l.Function = "99.0", right
	case "newer PTX":
		p.Image, l.Function = bytes.Replace(image, []byte(".version 7.0"), []byte(".version 9.9"), 1), right
	case "not PTX":
		p.Image, l.Function = []byte("a kernel, honestly\n"), right
	case "no such function":
		l.Function = "absent"
	case "too many blocks":
		l.Function, l.Grid = right, 1<<16
	case "":
		return nil, fmt.Errorf("which fault? set plugins.NAME.settings.fault")
	}
	return p, nil
}

func (*bad) Release(context.Context, string) error { return nil }
