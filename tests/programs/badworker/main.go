// Command badworker is a worker plugin that goes wrong at tiles of its choice: BAD says how, AT at which tile, CALL at the tiles
// of which call or, if it is "shorter", at those of a call shorter than the one before; NAME is what the plugin is called.
package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/worker"
)

func main() {
	name := os.Getenv("NAME")
	if name == "" {
		name = "bad-worker"
	}
	b := bad{name: name}
	at, _ := strconv.ParseInt(os.Getenv("AT"), 10, 64) // not a number: never
	call, err := strconv.ParseUint(os.Getenv("CALL"), 10, 64)
	ofCall, shorter := err == nil, os.Getenv("CALL") == "shorter"
	b.Do = func(t *worker.Tile) error {
		before := last.Swap(int64(len(t.Out)))
		if tiles.Add(1) == at || ofCall && t.Call == call || shorter && int64(len(t.Out)) < before {
			return wrong(os.Getenv("BAD"), t)
		}
		return worker.Reduce(t)
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: name, Version: "1", Backends: []backend.Backend{b}}))
}

// Of all groups: how many tiles there were, and how long the last one was.
var tiles, last atomic.Int64

// wrong goes wrong with a tile in progress.
func wrong(how string, t *worker.Tile) error {
	for i := range t.Out {
		t.Out[i] = 0x5a // half-done work, which nobody may take for a result
	}
	switch how {
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stopped":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "panics":
		panic("a hole in the sum")
	case "exits":
		os.Exit(3)
	case "fails":
		return errors.New("out of luck")
	case "wrong":
		return nil
	}
	time.Sleep(time.Hour)
	return nil
}

type bad struct {
	worker.Server
	name string
}

// Info puts the backend before all others.
func (b bad) Info() backend.Info {
	return backend.Info{Name: b.name, Kind: plan.WorkerKind, Priority: 1000, Requirements: backend.Requirements{Memories: []collective.Memory{collective.Host}}}
}

func (b bad) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

func (b bad) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	p := &plan.Worker{SlotBytes: 4096, Slots: 2}
	if n, err := strconv.ParseInt(os.Getenv("SLOT_BYTES"), 10, 64); err == nil {
		p.SlotBytes = n
	}
	if n, err := strconv.Atoi(os.Getenv("SLOTS")); err == nil {
		p.Slots = n
	}
	return p, nil
}

func (b bad) Attach(ctx context.Context, group, socket string) error {
	switch os.Getenv("BAD") {
	case "refuses to attach":
		return errors.New("not today")
	case "never connects":
		return nil
	}
	return b.Server.Attach(ctx, group, socket)
}

func (b bad) Release(context.Context, string) error { return nil }
