// Command versioned is a plugin whose version, and what is wrong with it, is the name of its file.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/worker"
)

func main() {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	version := filepath.Base(exe)
	name := "versioned"
	switch version {
	case "exits":
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	case "renamed":
		name = "other"
	}
	b := backend.Backend(bySchedule{named{version, name}})
	if strings.HasPrefix(version, "worker") {
		w := byWorker{named: named{version, name}}
		w.Do = w.reduce
		b = w
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: "versioned", Version: version, Backends: []backend.Backend{b}}))
}

type named struct{ version, name string }

// info puts the backend before all others.
func (n named) info(k plan.Kind) backend.Info {
	return backend.Info{Name: n.name, Kind: k, Priority: 1000, Requirements: backend.Requirements{Memories: []collective.Memory{collective.Host}}}
}

func (n named) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	switch n.version {
	case "crashes":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "small":
		return backend.Accepted(backend.Range{Min: 1, Max: 8192}), nil
	case "declines":
		return backend.Declined(backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "not any more"}), nil
	}
	return backend.Accepted(backend.AllBytes()...), nil
}

func (named) Release(context.Context, string) error { return nil }

type bySchedule struct{ named }

func (b bySchedule) Info() backend.Info { return b.info(plan.ScheduleKind) }

func (b bySchedule) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	world := req.Group.WorldSize()
	switch b.version {
	case "two":
		return allreduce.Ring(world, 16<<10), nil
	case "slow":
		time.Sleep(time.Hour)
	case "rejected":
		return hasty(world), nil
	}
	return allreduce.Flat(world, 8<<10), nil
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

type byWorker struct {
	worker.Server
	named
}

func (b byWorker) Info() backend.Info { return b.info(plan.WorkerKind) }

func (b byWorker) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	if b.version == "worker-two" {
		return &plan.Worker{SlotBytes: 16 << 10, Slots: 3}, nil
	}
	return &plan.Worker{SlotBytes: 8 << 10, Slots: 2}, nil
}

func (b byWorker) Attach(ctx context.Context, group, socket string) error {
	if b.version == "worker-refuses" {
		return errors.New("not today")
	}
	return b.Server.Attach(ctx, group, socket)
}

func (b byWorker) reduce(t *worker.Tile) error {
	switch b.version {
	case "worker-killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "worker-hangs":
		time.Sleep(time.Hour)
	case "worker-wrong":
		if err := worker.Reduce(t); err != nil {
			return err
		}
		t.Out[0] ^= 1
		return nil
	}
	return worker.Reduce(t)
}
