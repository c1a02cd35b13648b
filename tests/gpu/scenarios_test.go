package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/ondevice"
)

var sum = collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}

func captured(c collective.Class) collective.Class {
	c.Captured = true
	return c
}

// scenarios are what ranks do.
var scenarios = map[string]func(*rank.Session, *ondevice.Program) error{
	"sum": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		for _, n := range []int{1, 1000, ondevice.Bytes / 4} {
			err := errors.Join(p.Once(g, n), p.Sum(g, p.Src, p.Src, n), p.Check(g, p.Src, n))
			if err != nil {
				return fmt.Errorf("%d elements: %w", n, err)
			}
		}
		// From a thread without a context, which it leaves as it was.
		if err := p.SetCurrent(0); err != nil {
			return err
		}
		err := p.Sum(g, p.Dst, p.Src, 10)
		now, e := p.Current()
		if now != 0 {
			err = errors.Join(err, errors.New("the thread's context was changed"))
		}
		return errors.Join(err, e, p.SetCurrent(p.Context), p.SynchronizeStream(p.Stream), g.Err())
	},
	"types": func(s *rank.Session, _ *ondevice.Program) error {
		var classes []collective.Class
		for _, dt := range collective.DataTypes() {
			for _, op := range collective.Ops() {
				classes = append(classes, collective.Class{Memory: collective.CUDA, DataType: dt, Op: op, Captured: op == collective.Max})
			}
		}
		return s.World().Warm(context.Background(), classes...)
	},
	"capture": capture,
	"refuse": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		pinned, err := p.AllocHost(4096)
		if err != nil {
			return err
		}
		calls := p.BadCalls(pinned)
		other, err := p.NewContext(g.Facts().Ranks[g.Rank()].Device.Index)
		if err != nil {
			return err
		}
		var elsewhere cuda.Stream
		if err := p.In(other, func() (err error) { elsewhere, err = p.NewStream(); return err }); err != nil {
			return err
		}
		calls = append(calls, ondevice.BadCall{Name: "another context's stream", Dst: p.Dst, Src: p.Src, Count: 10, Stream: elsewhere, Words: "the stream belongs to another context"})
		err = ondevice.Refuse(g, calls, func() error { return g.Barrier(context.Background()) })
		return errors.Join(err, p.Once(g, 100), p.Usable())
	},
	"size": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		if err := p.Once(g, 100); err != nil {
			return err
		}
		_ = p.Sum(g, p.Dst, p.Src, 100+1000*g.Rank())
		return failed(g, p)
	},
	"absent": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		if err := p.Once(g, 100); err != nil {
			return err
		}
		if g.Rank() == 0 {
			_ = p.Sum(g, p.Dst, p.Src, 100)
		}
		return failed(g, p)
	},
	"kill": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		for i := 0; ; i++ {
			if i == 100 && g.Rank() == 1 {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if err := p.Sum(g, p.Dst, p.Src, 1000); err != nil {
				break
			}
			if i%16 == 0 {
				if err := p.SynchronizeStream(p.Stream); err != nil {
					return err
				}
			}
		}
		return failed(g, p)
	},
	"memory": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		var taken []cuda.Pointer
		for size := int64(64 << 30); size >= 1<<20; size /= 2 { // until nothing is left
			for {
				q, err := p.Alloc(size)
				if err != nil {
					break
				}
				taken = append(taken, q)
			}
		}
		if err := g.Barrier(context.Background()); err != nil {
			return err
		}
		why := g.Warm(context.Background(), sum)
		if why == nil {
			why = errors.New("decided without memory")
		}
		if err := g.Barrier(context.Background()); err != nil {
			return err
		}
		for _, q := range taken {
			if err := p.Free(q); err != nil {
				return err
			}
		}
		return errors.Join(why, p.Usable())
	},
	"groups": func(s *rank.Session, p *ondevice.Program) error {
		second, err := s.NewGroup(context.Background(), []int{1, 0})
		if err != nil {
			return err
		}
		stream, err := p.NewStream()
		if err != nil {
			return err
		}
		more, err := p.Alloc(ondevice.Bytes)
		if err != nil {
			return err
		}
		for range 5 {
			a, b := *p, *p
			b.Stream, b.Src, b.Dst = stream, more, more
			err := errors.Join(a.Load(s.World(), 100), b.Load(second, 100))
			err = errors.Join(err, a.Sum(s.World(), a.Dst, a.Src, 100), b.Sum(second, b.Dst, b.Src, 100))
			if err = errors.Join(err, a.Check(s.World(), a.Dst, 100), b.Check(second, b.Dst, 100)); err != nil {
				return err
			}
		}
		return nil
	},
	"registered": func(s *rank.Session, p *ondevice.Program) error {
		g := s.World()
		m, err := g.AllocDevice(context.Background(), ondevice.Bytes)
		if err != nil {
			return err
		}
		q := *p
		q.Src, q.Dst = cuda.Pointer(m.Pointer()), cuda.Pointer(m.Pointer())
		class := sum
		class.Registered = true
		fmt.Printf("# served by %s\n", g.Backend(class, 400))
		return errors.Join(q.Load(g, 100), q.Sum(g, q.Dst, q.Src, 100), q.Check(g, q.Dst, 100), p.Once(g, 100))
	},
	"figures":  figures,
	"api":      api,
	"kernels":  kernelScenario,
	"victim":   victim,
	"bindings": bindings,
}

// failed is how the group ended, which is found without waiting for the device; the device must be there still.
func failed(g *rank.Group, p *ondevice.Program) error {
	return errors.Join(ondevice.AwaitFailure(g), p.SynchronizeStream(p.Stream), p.Usable())
}

func capture(s *rank.Session, p *ondevice.Program) error {
	g, n := s.World(), 1000
	twice := func() error { return errors.Join(p.Sum(g, p.Dst, p.Src, n), p.Sum(g, p.Src, p.Src, n)) }
	_, _, err := p.Capture(twice)
	if err == nil || !strings.Contains(err.Error(), `class "cuda float32 sum captured" has not been decided; call Warm`) {
		return fmt.Errorf("a class that has not been decided: %w", err)
	}
	if err := g.Warm(context.Background(), sum, captured(sum)); err != nil {
		return err
	}
	x, kinds, err := p.Capture(twice)
	if err != nil {
		return err
	}
	direct, err := directNodes(s, p, n)
	if err != nil {
		return err
	}
	if !slices.Equal(kinds, direct) {
		return fmt.Errorf("nodes of kinds %v, NCCL alone gives %v", kinds, direct)
	}
	for range 3 {
		if err := errors.Join(p.Load(g, n), p.Launch(x, p.Stream), p.Check(g, p.Dst, n), p.Check(g, p.Src, n)); err != nil {
			return err
		}
	}
	// The graph outlives the group.
	if err := errors.Join(g.Barrier(context.Background()), g.Close()); err != nil {
		return err
	}
	return errors.Join(p.Load(g, n), p.Launch(x, p.Stream), p.Check(g, p.Dst, n), p.DestroyExec(x))
}
