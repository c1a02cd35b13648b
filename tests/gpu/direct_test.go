package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/ondevice"
)

// direct is an all-reduce of float32 on a communicator of the test's own, without Weir in between. The library is the copy
// that Weir has loaded.
func direct(s *rank.Session, p *ondevice.Program) (func(dst, src cuda.Pointer, n int) error, error) {
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
	steps := dl.NewSequence(1)
	return func(dst, src cuda.Pointer, n int) error {
		a.FillAllReduce(steps.Step(0), uintptr(src), uintptr(dst), int64(n), nccl.TypeOf(collective.Float32), nccl.OpOf(collective.Sum), c, uintptr(p.Stream))
		if steps.Run(0) == 0 {
			return a.AllReduceFailed(int(int32(steps.Step(0).Result)))
		}
		return nil
	}, nil
}

// directNodes are the kinds of the nodes that two captured calls of the library become.
func directNodes(s *rank.Session, p *ondevice.Program, n int) ([]int, error) {
	call, err := direct(s, p)
	if err != nil {
		return nil, err
	}
	x, kinds, err := p.Capture(func() error { return errors.Join(call(p.Dst, p.Src, n), call(p.Src, p.Src, n)) })
	if err != nil {
		return nil, err
	}
	return kinds, p.DestroyExec(x)
}

// empty is a kernel that does nothing, in a version of PTX that every driver of Weir loads.
const empty = `.version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
`

// launches is the host's nanoseconds to launch a kernel, the median of many.
func launches(p *ondevice.Program) (float64, error) {
	m, err := p.LoadModule([]byte(empty))
	if err != nil {
		return 0, err
	}
	f, err := p.Function(m, "empty")
	if err != nil {
		return 0, err
	}
	launcher := p.NewLauncher()
	var all []float64
	for range 101 {
		const calls = 100
		start := time.Now()
		for range calls {
			if err := launcher.Launch(f, 1, 32, 0, p.Stream, nil); err != nil {
				return 0, err
			}
		}
		all = append(all, float64(time.Since(start).Nanoseconds())/calls)
		if err := p.SynchronizeStream(p.Stream); err != nil {
			return 0, err
		}
	}
	return median(all), nil
}
