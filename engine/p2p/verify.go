// Package p2p proves, with data, that GPUs reach each other's memory: each writes into that of each other, in processes that are thrown away.
package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// Options say how to prove. Command must be set.
type Options struct {
	Command []string // a program that calls Serve with its file descriptor 3, and its arguments
	Environ []string // its whole environment

	Start     time.Duration // for CUDA to start on a GPU; 0: 30 s
	Direction time.Duration // for one GPU to write into the memory of one other; 0: 10 s
	Patience  time.Duration // for data to come once its writer is done; 0: 1 s
	Overall   time.Duration // for everything; 0: 2 minutes

	Progress func(done, all int) // optional: directions
	Started  func(pgid int)      // optional: a process has been started, the leader of a process group
	Ended    func(pgid int)      // optional: it has ended
}

// The defaults.
const (
	startPatience     = 30 * time.Second
	directionPatience = 10 * time.Second
	writePatience     = time.Second
	overallPatience   = 2 * time.Minute
)

// Direction is one GPU that writes into the memory of another, by their positions in a list.
type Direction struct{ From, To int }

// Directions are all between n GPUs.
func Directions(n int) []Direction {
	return lo.Flatten(lo.Times(n, func(a int) []Direction {
		return lo.FilterMap(lo.Range(n), func(b, _ int) (Direction, bool) { return Direction{a, b}, a != b })
	}))
}

// Result is what was found of one direction.
type Result struct {
	Direction
	Found topology.P2P // verified, failed, none (CUDA refuses), or unknown: it could not be tried
	Why   string       // in the case of another result than verified
}

// Proof is the result about devices; ok is false if nothing was found.
func (r Result) Proof(devices []topology.Device) (p topology.Proof, ok bool) {
	return topology.Proof{From: devices[r.From].Identity(), To: devices[r.To].Identity(), Result: r.Found, Why: r.Why}, r.Found != topology.P2PUnknown
}

// Verify tries directions one after the other and returns what was found, in the same order. It does not fail: what goes
// wrong is in the results. Each GPU has a process of its own, so that memory crosses the border of processes as it does
// between ranks; one that hangs or breaks is killed and started again for the next direction.
func Verify(ctx context.Context, devices []topology.Device, directions []Direction, opts Options) []Result {
	opts.Start, opts.Direction = cmp.Or(opts.Start, startPatience), cmp.Or(opts.Direction, directionPatience)
	opts.Patience, opts.Overall = cmp.Or(opts.Patience, writePatience), cmp.Or(opts.Overall, overallPatience)
	ctx, cancel := context.WithTimeout(ctx, opts.Overall)
	defer cancel()
	v := &verifier{opts: opts, devices: devices, workers: make([]*process, len(devices)), broken: make([]string, len(devices))}
	defer v.close()
	needed := lo.Uniq(lo.FlatMap(directions, func(d Direction, _ int) []int { return []int{d.From, d.To} }))
	v.open(ctx, needed)
	results := make([]Result, len(directions))
	for i, d := range directions {
		results[i] = v.direction(ctx, d, uint64(i+1))
		if opts.Progress != nil {
			opts.Progress(i+1, len(directions))
		}
	}
	return results
}

// verifier is a proof in progress.
type verifier struct {
	opts    Options
	devices []topology.Device
	workers []*process // by device; nil: not started, or killed
	broken  []string   // by device: why its process cannot be started
}

// open starts the workers that are not there, all at once: to start CUDA takes seconds.
func (v *verifier) open(ctx context.Context, devices []int) {
	var wg sync.WaitGroup
	for _, d := range devices {
		if v.workers[d] == nil && v.broken[d] == "" && ctx.Err() == nil {
			wg.Go(func() { v.workers[d], v.broken[d] = v.openOne(ctx, d) })
		}
	}
	wg.Wait()
}

func (v *verifier) openOne(ctx context.Context, d int) (*process, string) {
	p, err := start(&v.opts)
	if err != nil {
		return nil, err.Error()
	}
	r, _, err := p.call(ctx, request{Op: opOpen, Device: v.devices[d].Identity()}, nil, v.by(ctx, v.opts.Start))
	switch {
	case errors.Is(err, errHangs):
		p.kill()
		return nil, fmt.Sprintf("CUDA does not start within %s", v.opts.Start)
	case err != nil:
		p.kill()
		return nil, err.Error()
	case r.Error != "":
		p.kill()
		return nil, r.Error
	}
	return p, ""
}

func (v *verifier) close() {
	var wg sync.WaitGroup
	for d := range v.workers {
		wg.Go(func() { v.kill(d) })
	}
	wg.Wait()
}

func (v *verifier) kill(d int) {
	if p := v.workers[d]; p != nil {
		v.workers[d] = nil
		p.kill()
	}
}

// by is the time until which something may take so long, if there is so much time.
func (v *verifier) by(ctx context.Context, d time.Duration) time.Time {
	by := time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(by) {
		return end
	}
	return by
}

func (v *verifier) name(d int) string { return fmt.Sprintf("GPU%d", v.devices[d].Index) }
