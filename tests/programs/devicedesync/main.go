// Command devicedesync is a rank that all-reduces on its device, eagerly and in a graph, with results that are checked, until rank 1
// does what the argument says. Then every rank says how its group ended, and whether its device is still of use.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/ondevice"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "devicedesync: %s\n", err)
		os.Exit(1)
	}
}

const (
	calls = 20   // that are right
	n     = 1000 // elements of each
)

// step is what a rank does where another may do something else.
type step func(p *program) error

// program is a rank at work.
type program struct {
	*ondevice.Program
	group *rank.Group
	graph cuda.GraphExec // of one sum of n elements
	odd   bool           // this is the rank that differs
}

func (p *program) call(elements int, t collective.DataType, op collective.Op) error {
	return rank.AllReduceDevice(p.group, uintptr(p.Dst), uintptr(p.Src), int64(elements), t, op, uintptr(p.Stream))
}

// sum is the call that all make, replay the graph that all have.
func sum(p *program) error    { return p.call(n, collective.Float32, collective.Sum) }
func half(p *program) error   { return p.call(n/2, collective.Float32, collective.Sum) }
func replay(p *program) error { return p.Launch(p.graph, p.Stream) }

func capture(p *program) error {
	_, _, err := p.Capture(func() error { return sum(p) })
	return err
}

// faults are what rank 1 does in place of what the others do.
var faults = map[string]struct{ all, odd []step }{
	"none":        {[]step{sum, replay}, []step{sum, replay}},
	"size":        {[]step{sum}, []step{half}},
	"type":        {[]step{sum}, []step{func(p *program) error { return p.call(n, collective.Int32, collective.Sum) }}},
	"op":          {[]step{sum}, []step{func(p *program) error { return p.call(n, collective.Float32, collective.Max) }}},
	"undecided":   {[]step{sum}, []step{func(p *program) error { return p.call(n, collective.Float32, collective.Min) }}},
	"refused":     {[]step{sum}, []step{func(p *program) error { _ = p.call(-1, collective.Float32, collective.Sum); return nil }}},
	"skips":       {[]step{sum, half, sum}, []step{half, sum}},
	"swaps":       {[]step{sum, half, sum}, []step{half, sum, sum}},
	"captures":    {[]step{sum, half}, []step{capture, half}},
	"misses":      {[]step{sum, sum, sum}, []step{sum, sum}},
	"doubles":     {[]step{sum, sum}, []step{sum, sum, sum}},
	"ahead":       {[]step{replay, half, half}, []step{replay, replay, half, half}},
	"ahead alike": {[]step{replay, sum, sum}, []step{replay, replay, sum, sum}},
	"behind":      {[]step{replay, replay, half, half}, []step{replay, half, half}},
}

func run(ctx context.Context, fault string) error {
	todo, ok := faults[fault]
	if !ok {
		return fmt.Errorf("fault %q, want one of %s", fault, strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	}
	s, err := rank.Join(ctx, rank.Options{Device: rank.DeviceAuto})
	if err != nil {
		return err
	}
	p := &program{group: s.World(), odd: s.World().Rank() == 1}
	if p.Program, err = ondevice.Open(p.group); err != nil {
		return err
	}
	if err := p.inStep(ctx); err != nil {
		return errors.Join(fmt.Errorf("before the fault: %w", err), p.Usable())
	}
	steps := todo.all
	if p.odd {
		steps = todo.odd
	}
	for _, step := range steps {
		if err = step(p); err != nil {
			break
		}
	}
	if fault == "none" {
		return errors.Join(err, p.SynchronizeStream(p.Stream), s.Close())
	}
	why := p.end()
	fmt.Fprintf(os.Stderr, "rank %d: %v\n", p.group.Rank(), why)
	if why == nil {
		return errors.New("nobody noticed")
	}
	err = errors.Join(ondevice.AwaitDone(p.Program, await.For(5*time.Second)), p.Usable())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "rank %d: the device is usable\n", p.group.Rank())
	return s.Close()
}

// inStep makes what all ranks do alike.
func (p *program) inStep(ctx context.Context) error {
	sum := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	captured, whole, most := sum, sum, sum
	captured.Captured, whole.DataType, most.Op = true, collective.Int32, collective.Max
	if err := p.group.Warm(ctx, sum, captured, whole, most); err != nil {
		return err
	}
	for i := range calls {
		if err := p.Once(p.group, n-i); err != nil {
			return err
		}
	}
	if err := p.group.Barrier(ctx); err != nil {
		return err
	}
	var err error
	p.graph, _, err = p.Capture(func() error { return p.Sum(p.group, p.Dst, p.Src, n) })
	if err != nil {
		return err
	}
	for range calls {
		if err := errors.Join(p.Load(p.group, n), p.Launch(p.graph, p.Stream), p.Check(p.group, p.Dst, n)); err != nil {
			return err
		}
	}
	return p.group.Barrier(ctx)
}

// end waits until the group has failed, or is known not to: this rank's work on the device is done and all ranks have come here.
func (p *program) end() error {
	await.Poll(await.For(await.Plenty), func() bool { return p.group.Err() != nil })
	return p.group.Err()
}
