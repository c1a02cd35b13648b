package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/sdk/rank"
)

// bindThread keeps the calling thread on one of the cores that it may use: the i-th, counted round and round.
func bindThread(i int) error {
	var may, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("bind rank %d to a core: %w", i, err)
	}
	left := i % may.Count()
	for cpu := 0; ; cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if left == 0 {
			only.Set(cpu)
			break
		}
		left--
	}
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("bind rank %d to a core: %w", i, err)
	}
	return nil
}

// benchWork is one column of a cell.
type benchWork struct {
	call    func() error
	clear   func() error          // what the timed calls need first
	prepare func() error          // what a checked call needs first
	wrong   func() (int64, error) // elements, after a checked call

	// Of calls that are done some time after they have returned:
	run   func(n int) error // makes n calls and waits until they are done; nil: call, n times
	ready func(n int) error // what run needs, before it is timed; nil for nothing
	scale int               // how often run makes the n calls; 0: once
}

// cell measures the columns of one size.
func (r *benchRank) cell(ctx context.Context, c *bench.Cell, p *bench.Pattern) (err error) {
	if r.spec.OutOfPlace {
		if c.OutOfPlace, err = r.column(ctx, r.work(c, p, false)); err != nil {
			return err
		}
	}
	if r.spec.InPlace {
		c.InPlace, err = r.column(ctx, r.work(c, p, true))
	}
	return err
}

// work is how calls of a size are made.
func (r *benchRank) work(c *bench.Cell, p *bench.Pattern, inPlace bool) benchWork {
	if r.gpu != nil {
		return r.deviceWork(c, p, inPlace)
	}
	in, dst := r.in[:c.Bytes:c.Bytes], r.dst[:c.Bytes:c.Bytes]
	w := benchWork{
		call:    func() error { return rank.AllReduceBytes(r.group, dst, in, c.DataType, c.Op) },
		clear:   func() error { p.Fill(in); return nil },
		prepare: func() error { fill(dst, 0xff); return nil },
		wrong:   func() (int64, error) { return p.Wrong(dst), nil },
	}
	if inPlace {
		w.call = func() error { return rank.AllReduceBytes(r.group, dst, dst, c.DataType, c.Op) }
		w.clear = func() error { fill(dst, 0); return nil } // sums of sums would soon be infinite, which not every adder takes at full speed
		w.prepare = func() error { p.Fill(dst); return nil }
	}
	return w
}

// column times calls, then checks some.
func (r *benchRank) column(ctx context.Context, w benchWork) (*bench.Column, error) {
	if err := w.clear(); err != nil {
		return nil, err
	}
	loop, err := r.warmUp(ctx, w)
	if err != nil {
		return nil, err
	}
	blocks := make([]int64, loop.Blocks())
	for _, n := range []int{loop.Calls(0), loop.Calls(len(blocks) - 1)} { // the last block may be shorter
		if err := w.makeReady(n); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	if err := r.meet(ctx, w.call); err != nil {
		return nil, err
	}
	for b := range blocks {
		if blocks[b], err = w.timed(loop.Calls(b)); err != nil {
			return nil, err
		}
	}
	all, err := exchange(ctx, r.group, blocks)
	if err != nil {
		return nil, err
	}
	c := bench.Merge(loop, all)
	c.Wrong, err = r.check(ctx, w)
	return c, err
}

func (w benchWork) makeReady(n int) error {
	if w.ready == nil {
		return nil
	}
	return w.ready(n)
}

// timed is the nanoseconds that n calls take.
func (w benchWork) timed(n int) (int64, error) {
	start := time.Now()
	if w.run != nil {
		err := w.run(n)
		return int64(time.Since(start)) / int64(max(1, w.scale)), err
	}
	for range n {
		if err := w.call(); err != nil {
			return 0, err
		}
	}
	return int64(time.Since(start)), nil
}

// meet brings the ranks as close together as a call does: they leave a barrier of the agent one after the other.
func (r *benchRank) meet(ctx context.Context, call func() error) error {
	if err := r.group.Barrier(ctx); err != nil {
		return err
	}
	return call()
}

// The calls from which is learnt how long one takes: four times more each time until they take a millisecond.
const (
	learnNanoseconds = 1e6
	learnCalls       = 1 << 12
)

// warmUp makes the calls before the timed ones and learns from further ones how long one takes.
func (r *benchRank) warmUp(ctx context.Context, w benchWork) (bench.Loop, error) {
	for range r.spec.Warmup {
		if err := w.call(); err != nil {
			return bench.Loop{}, err
		}
	}
	plan := bench.PlanLoop
	if w.run != nil {
		plan = bench.PlanDeviceLoop
	}
	for n := 1; ; n *= 4 {
		if err := w.makeReady(n); err != nil {
			return bench.Loop{}, err
		}
		if err := r.meet(ctx, w.call); err != nil {
			return bench.Loop{}, err
		}
		took, err := w.timed(n)
		if err != nil {
			return bench.Loop{}, err
		}
		all, err := exchange(ctx, r.group, took)
		if err != nil {
			return bench.Loop{}, err
		}
		if slowest := slices.Max(all); slowest >= learnNanoseconds || n >= learnCalls {
			return plan(r.spec.Iterations, r.spec.Seconds, float64(slowest)/1e3/float64(n)), nil
		}
	}
}

// check counts wrong elements on all ranks; -1 if nothing is to be checked.
func (r *benchRank) check(ctx context.Context, w benchWork) (int64, error) {
	if r.spec.Check == 0 {
		return -1, nil
	}
	var own int64
	for range r.spec.Check {
		if err := w.prepare(); err != nil {
			return 0, err
		}
		if err := w.call(); err != nil {
			return 0, err
		}
		n, err := w.wrong()
		if err != nil {
			return 0, err
		}
		own += n
	}
	all, err := exchange(ctx, r.group, own)
	return lo.Sum(all), err
}

// exchange gives every rank's value to every rank.
func exchange[T any](ctx context.Context, g *rank.Group, own T) ([]T, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	texts, err := g.Exchange(ctx, text)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(texts))
	for i, t := range texts {
		if err := json.Unmarshal(t, &all[i]); err != nil {
			return nil, fmt.Errorf("rank %d sent something else: %w", i, err)
		}
	}
	return all, nil
}
