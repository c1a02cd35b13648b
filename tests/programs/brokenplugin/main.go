// Command brokenplugin breaks one rule about a plugin's process, which the variable BREAK says; BREAK_DIR is a folder for it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/worker"
)

func main() {
	b := broken{how: os.Getenv("BREAK"), dir: os.Getenv("BREAK_DIR")}
	switch b.how {
	case "handshake":
		fmt.Println("hello")
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find my library")
		os.Exit(3)
	case "restart":
		mark := filepath.Join(b.dir, "started")
		if _, err := os.Stat(mark); err == nil {
			fmt.Fprintln(os.Stderr, "there is a lock of mine already")
			os.Exit(1)
		}
		_ = os.WriteFile(mark, nil, 0o600)
	case "health", "orphan":
		os.Exit(bare(b, b.how == "orphan"))
	}
	var offered backend.Backend = b
	if b.how == "leak mappings" {
		offered = leaky{b}
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: "broken", Version: "1", Backends: []backend.Backend{offered}}))
}

type broken struct{ how, dir string }

func (b broken) Info() backend.Info {
	return backend.Info{
		Name: "broken", Description: "breaks one rule", Kind: plan.ScheduleKind,
		Requirements: backend.Requirements{WorldSizes: backend.Exactly(2), Memories: []collective.Memory{collective.Host}, Scope: backend.OneHost},
	}
}

// kept is what leaks.
var kept struct {
	files  []*os.File
	memory [][]byte
}

func (b broken) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	switch {
	case b.how == "stdout":
		fmt.Println("asked about", req.Class)
	case b.how == "probes a library" && req.Hypothetical:
		b.mapLibrary()
	case b.how == "probes with a program" && req.Hypothetical:
		_ = exec.Command("sleep", "60").Start()
	}
	return backend.Accepted(backend.AllBytes()...), nil
}

// mapLibrary maps a file that is called as CUDA's is.
func (b broken) mapLibrary() {
	path := filepath.Join(b.dir, "libcuda.so.1")
	_ = os.WriteFile(path, make([]byte, 4096), 0o600)
	if f, err := os.Open(path); err == nil {
		_, _ = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
		_ = f.Close()
	}
}

func (b broken) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	switch b.how {
	case "leak descriptors":
		f, _ := os.Open(os.DevNull)
		kept.files = append(kept.files, f)
	case "leak memory":
		m := make([]byte, 64<<10)
		for i := range m {
			m[i] = byte(i)
		}
		kept.memory = append(kept.memory, m)
	case "leak processes":
		_ = exec.Command("sleep", "60").Start()
	}
	return allreduce.Flat(req.Group.WorldSize(), 8<<10), nil
}

func (b broken) Release(context.Context, string) error { return nil }

// leaky is a worker that never gives the memory of a group up.
type leaky struct{ broken }

func (l leaky) Info() backend.Info {
	i := l.broken.Info()
	i.Kind = plan.WorkerKind
	return i
}

func (leaky) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return &plan.Worker{SlotBytes: 4096, Slots: 2}, nil
}

func (leaky) Attach(ctx context.Context, _, socket string) error {
	_, err := worker.Attach(ctx, socket) // and never Serve, which gives the memory up
	return err
}

func (leaky) Detach(context.Context, string) error { return nil }
