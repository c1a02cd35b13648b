// Command badplugin is a plugin with one fault, chosen by the variable BAD; NAME is what it is called.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
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
	case "impossible plan":
		return &plan.Schedule{TileBytes: 64, Buffers: 1, Chunks: 1, Programs: [][]plan.Step{{{Kind: plan.Wait, Rank: 77}}}}, nil
	}
	return &plan.Schedule{}, nil
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
