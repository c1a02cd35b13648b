package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/ondevice"
)

// envC names the library that testdata/direct.c becomes; without it nothing is measured from C.
const envC = "WEIR_GPU_C"

const (
	loops = 101 // timed loops of each kind, in turns
	calls = 100 // in a loop
)

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// figures prints the host's time for what it does in every call, through Weir and from C.
func figures(s *rank.Session, p *ondevice.Program) error {
	g := s.World()
	if err := g.Warm(context.Background(), sum); err != nil {
		return err
	}
	for _, n := range []int{2, 3584, ondevice.Bytes / 4} {
		if err := enqueue(s, p, n); err != nil {
			return err
		}
	}
	var failed error
	allocs := testing.AllocsPerRun(100, func() { failed = errors.Join(failed, p.Sum(g, p.Dst, p.Src, 100)) })
	fmt.Printf("# allocations per call: %v\n", allocs)
	if allocs != 0 {
		failed = errors.Join(failed, fmt.Errorf("%v allocations per call", allocs))
	}
	return errors.Join(failed, launches(p), p.SynchronizeStream(p.Stream))
}

// way is one way to do something a number of times; it returns the nanoseconds.
type way struct {
	name string
	loop func() (float64, error)
	took []float64
}

// goLoop is a way from Go.
func goLoop(name string, f func() error) *way {
	return &way{name: name, loop: func() (float64, error) {
		start := time.Now()
		for range calls {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return float64(time.Since(start).Nanoseconds()), nil
	}}
}

// cLoop is a way from C: a function of direct.c with its arguments but the last.
func cLoop(name, function string, args ...uintptr) (*way, error) {
	path := os.Getenv(envC)
	if path == "" {
		return nil, nil
	}
	lib, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	address, err := lib.Symbol(function)
	if err != nil {
		return nil, err
	}
	args = append(args, calls)
	return &way{name: name, loop: func() (float64, error) {
		ns := int64(dl.Call(address, args...))
		if ns < 0 {
			return 0, fmt.Errorf("%s failed", function)
		}
		return float64(ns), nil
	}}, nil
}

// measure runs all ways in turns and prints their medians, and the median of what each takes more than the first one
// beside it.
func measure(what string, p *ondevice.Program, meet func() error, ways ...*way) error {
	ways = slices.DeleteFunc(ways, func(w *way) bool { return w == nil })
	for i := range loops + 5 { // the first five warm up
		for _, w := range ways {
			if err := meet(); err != nil {
				return err
			}
			ns, err := w.loop()
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 5 {
				w.took = append(w.took, ns/calls)
			}
			if err := p.SynchronizeStream(p.Stream); err != nil {
				return err
			}
		}
	}
	fmt.Printf("# %s:", what)
	for _, w := range ways {
		more := make([]float64, loops)
		for i := range more {
			more[i] = w.took[i] - ways[0].took[i]
		}
		fmt.Printf(" %s %.0f ns (%+.0f);", w.name, median(slices.Clone(w.took)), median(more))
	}
	fmt.Println()
	return nil
}

func enqueue(s *rank.Session, p *ondevice.Program, n int) error {
	g := s.World()
	d, err := openDirect(s, p)
	if err != nil {
		return err
	}
	c, err := cLoop("C", "direct_enqueue", d.address, uintptr(p.Src), uintptr(p.Dst), uintptr(n),
		uintptr(nccl.TypeOf(collective.Float32)), uintptr(nccl.OpOf(collective.Sum)), uintptr(d.comm), uintptr(p.Stream))
	if err != nil {
		return err
	}
	counts, turn := [2]int{n, n - 1}, 0 // as long, nearly
	return measure(fmt.Sprintf("enqueue %d B", 4*n), p, func() error { return g.Barrier(context.Background()) },
		c,
		goLoop("Go", func() error { return d.call(p.Dst, p.Src, n) }),
		goLoop("with questions", d.asking(p, n)),
		goLoop("Weir", func() error { return p.Sum(g, p.Dst, p.Src, n) }),
		goLoop("Weir, never the call before", func() error { turn ^= 1; return p.Sum(g, p.Dst, p.Src, counts[turn]) }))
}

// empty is a kernel that does nothing, in a version of PTX that every driver of Weir loads.
const empty = `.version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
`

// launches measures the launch of a kernel.
func launches(p *ondevice.Program) error {
	m, err := p.LoadModule([]byte(empty))
	if err != nil {
		return err
	}
	f, err := p.Function(m, "empty")
	if err != nil {
		return err
	}
	launcher := p.NewLauncher()
	c, err := cLoop("C", "direct_launch", p.Address("cuLaunchKernel"), uintptr(f), uintptr(p.Stream))
	if err != nil {
		return err
	}
	return measure("kernel launch", p, func() error { return nil }, c,
		goLoop("Go", func() error { return launcher.Launch(f, 1, 32, 0, p.Stream, nil) }))
}
