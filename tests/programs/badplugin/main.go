// Command badplugin is a plugin with one fault, chosen by the variable BAD; NAME is what it is called.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	name := cmp.Or(os.Getenv("NAME"), "bad")
	b := bad{fault: os.Getenv("BAD"), name: name}
	switch b.fault {
	case "prints":
		fmt.Println("hello from a plugin")
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find my library")
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	case "old":
		fmt.Println("1|99|unix|/nowhere|grpc|")
		time.Sleep(time.Hour)
	case "twin":
		b.name = "shm-flat"
	case "builtin":
		b.name = "builtin"
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: name, Version: "1", Backends: []backend.Backend{b}}))
}

type bad struct{ fault, name string }

// Info puts the backend before all others.
func (b bad) Info() backend.Info {
	return backend.Info{Name: b.name, Kind: plan.ScheduleKind, Priority: 1000}
}

func (b bad) Accept(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
	switch b.fault {
	case "hangs in accept":
		<-ctx.Done()
		time.Sleep(time.Hour)
	case "crashes in accept":
		os.Exit(4)
	case "panics in accept":
		panic("a hole in the map")
	case "stops in accept":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour) // another thread may take the signal, a moment later
	case "changes its mind":
		if asked.Add(1)%2 == 0 {
			return backend.Declined(backend.Because(backend.TooSmall, "a hair", "a rope")), nil
		}
	case "overlapping ranges":
		return backend.Accepted(backend.Range{Min: 1, Max: 300}, backend.Range{Min: 200, Max: 5000, Multiple: 3}, backend.Range{Min: 4, Max: 256}), nil
	case "negative range":
		return backend.Accepted(backend.Range{Min: -5, Max: 10}), nil
	case "range upside down":
		return backend.Accepted(backend.Range{Min: 10, Max: 5}), nil
	case "countless ranges":
		return backend.Accepted(slices.Repeat(backend.AllBytes(), 100_000)...), nil
	case "accepts nothing":
		return backend.Verdict{Kind: backend.Accept}, nil
	}
	return backend.Accepted(backend.AllBytes()...), nil
}

func (b bad) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	switch b.fault {
	case "hangs in plan":
		time.Sleep(time.Hour)
	case "crashes in plan":
		os.Exit(5)
	case "unproved plan":
		return hasty(req.Group.WorldSize()), nil
	case "overlapping ranges", "changes its mind":
		return right(req.Group.WorldSize()), nil
	case "wrong sum":
		p := right(req.Group.WorldSize())
		last := &p.Programs[0][len(p.Programs[0])-1]
		last.Srcs[1] = last.Srcs[0]
		return p, nil
	case "slot of nobody":
		p := right(req.Group.WorldSize())
		p.Programs[1][0].Dst.Rank = 77
		return p, nil
	case "slot beyond the last":
		p := right(req.Group.WorldSize())
		p.Programs[1][0].Dst.Slot = 5
		return p, nil
	case "slot of another":
		p := right(req.Group.WorldSize())
		p.Programs[1][0].Dst.Rank = 0
		return p, nil
	case "huge plan":
		p := right(req.Group.WorldSize())
		p.TileBytes, p.Slots, p.Buffers = plan.MaxTileBytes, plan.MaxSlots, plan.MaxBuffers
		return p, nil
	case "large plan":
		p := right(req.Group.WorldSize())
		p.TileBytes = plan.MaxTileBytes
		return p, nil
	case "impossible plan":
		return &plan.Schedule{TileBytes: 64, Buffers: 1, Chunks: 1, Programs: [][]plan.Step{{{Kind: plan.Wait, Rank: 77}}}}, nil
	}
	return &plan.Schedule{}, nil
}

var asked atomic.Int64 // how often

// right is a flat schedule with nothing wrong.
func right(world int) *plan.Schedule {
	return schedule.Build(world, schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	})
}

// hasty is a flat schedule whose ranks do not wait for rank 0.
func hasty(world int) *plan.Schedule {
	shape := schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		for _, p := range r.Peers() {
			if p > 0 {
				r.Wait(p, 0)
			}
		}
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	})
}

func (b bad) Release(context.Context, string) error { return nil }
