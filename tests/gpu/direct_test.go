package gpu

import (
	"context"
	"errors"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/ondevice"
)

// direct is a communicator of the test's own, without Weir in between. The library is the copy that Weir has loaded.
type direct struct {
	api     *nccl.API
	comm    nccl.Comm
	address uintptr // of ncclAllReduce
	stream  cuda.Stream
	steps   *dl.Sequence
}

func openDirect(s *rank.Session, p *ondevice.Program) (*direct, error) {
	loaded, err := nccl.Loaded()
	if err != nil || len(loaded) == 0 {
		return nil, errors.Join(err, errors.New("no copy of NCCL is loaded"))
	}
	lib, err := dl.Open(loaded[0].Path)
	if err != nil {
		return nil, err
	}
	a, err := nccl.Bind(lib)
	if err != nil {
		return nil, err
	}
	var own []byte
	if s.World().Rank() == 0 {
		id, err := a.UniqueID()
		if err != nil {
			return nil, err
		}
		own = id[:]
	}
	all, err := s.World().Exchange(context.Background(), own)
	if err != nil {
		return nil, err
	}
	c, err := a.Init(s.World().Size(), s.World().Rank(), nccl.UniqueID(all[0]))
	if err != nil {
		return nil, err
	}
	address, err := lib.Symbol("ncclAllReduce")
	return &direct{api: a, comm: c, address: address, stream: p.Stream, steps: dl.NewSequence(1)}, err
}

// call is an all-reduce of float32.
func (d *direct) call(dst, src cuda.Pointer, n int) error {
	step := d.steps.Step(0)
	d.api.FillAllReduce(step, uintptr(src), uintptr(dst), int64(n), nccl.TypeOf(collective.Float32), nccl.OpOf(collective.Sum), d.comm, uintptr(d.stream))
	if d.steps.Run(0) == 0 {
		return d.api.AllReduceFailed(int(step.Result))
	}
	return nil
}

// asking is a call with the two questions to the driver that Weir asks: the thread's context, and whether the stream is
// being captured.
func (d *direct) asking(p *ondevice.Program, n int) func() error {
	lane := p.NewLane(p.Context)
	return func() error {
		d.api.FillAllReduce(lane.Target(), uintptr(p.Src), uintptr(p.Dst), int64(n), nccl.TypeOf(collective.Float32), nccl.OpOf(collective.Sum), d.comm, uintptr(d.stream))
		_, result, err := lane.Run(d.stream)
		if result != 0 {
			return d.api.AllReduceFailed(result)
		}
		return err
	}
}

// directNodes are the kinds of the nodes that two captured calls of the library become.
func directNodes(s *rank.Session, p *ondevice.Program, n int) ([]int, error) {
	d, err := openDirect(s, p)
	if err != nil {
		return nil, err
	}
	x, kinds, err := p.Capture(func() error { return errors.Join(d.call(p.Dst, p.Src, n), d.call(p.Src, p.Src, n)) })
	if err != nil {
		return nil, err
	}
	return kinds, p.DestroyExec(x)
}
