// Command kernelplugin is a plugin with a backend of kernels for float32 sums, whose image, a file, its settings name.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	k := &kernels{}
	os.Exit(plugin.Serve(plugin.Plugin{
		Name: "kernelplugin", Version: "1", Backends: []backend.Backend{k}, Configure: func(s plugin.Settings) error { return s.Decode(&k.settings) },
	}))
}

type settings struct {
	Image string `json:"image"`
	Host  bool   `json:"host"` // buffers in host memory
	Deaf  bool   `json:"deaf"` // does not say that its kernels leave
}

type kernels struct{ settings settings }

const most = 1 << 16

func (k *kernels) Info() backend.Info {
	return backend.Info{Name: "kernels", Kind: plan.KernelKind, Priority: 10, Requirements: backend.Requirements{
		Memories: []collective.Memory{collective.CUDA}, DataTypes: []collective.DataType{collective.Float32}, Ops: []collective.Op{collective.Sum},
	}}
}

func (k *kernels) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.Range{Min: 1, Max: most, Multiple: 4}), nil
}

func (k *kernels) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	if k.settings.Image == "" {
		return nil, errors.New("the settings name no image")
	}
	image, err := os.ReadFile(k.settings.Image)
	if err != nil {
		return nil, err
	}
	p := &plan.Kernel{
		Image: image, BufferBytes: 1 << 21, Buffer: plan.DeviceBuffer, PollsAbort: !k.settings.Deaf,
		Launches: []plan.Launch{{DataType: "float32", Min: 1, Max: most, Function: "sum_f32", Grid: 4, Block: 64}},
	}
	if k.settings.Host {
		p.Buffer = plan.HostBuffer
	}
	return p, nil
}

func (k *kernels) Release(context.Context, string) error { return nil }
