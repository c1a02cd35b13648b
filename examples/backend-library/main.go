// Command backend-library is a plugin for a shared library with the NCCL ABI: it looks for the library and vets it, and every
// rank loads it.
//
// Which library is a setting (plugins.NAME.settings.library), a path or a name that the loader finds.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	l := newLibrary()
	os.Exit(plugin.Serve(plugin.Plugin{Name: "library", Version: "0.1.0", Backends: []backend.Backend{l}, Configure: l.configure}))
}

type library struct {
	settings struct {
		Library string `json:"library"`
	}
	vetted func() (plan.Library, []backend.Reason) // looked for once: a library is not unloaded
}

func newLibrary() *library {
	l := &library{}
	l.settings.Library = nccl.LibraryName
	l.vetted = sync.OnceValues(l.vet)
	return l
}

// configure takes the settings, once, before anything is asked. Its error ends the engine with that text.
func (l *library) configure(s plugin.Settings) error { return s.Decode(&l.settings) }

// vet loads the library in this process, so that one that crashes or lacks a function harms no rank.
func (l *library) vet() (plan.Library, []backend.Reason) {
	lib, err := dl.Open(l.settings.Library)
	if err != nil {
		return plan.Library{}, []backend.Reason{{Code: backend.LibMissing, Observed: l.settings.Library, Rank: backend.AnyRank, Text: err.Error()}}
	}
	if missing := nccl.Missing(lib); len(missing) > 0 {
		return plan.Library{}, []backend.Reason{backend.Because(backend.SymbolMissing, lib.Path(), strings.Join(missing, ", "))}
	}
	version, err := nccl.Version(lib)
	if err != nil {
		return plan.Library{}, []backend.Reason{{Code: backend.InitFailed, Observed: lib.Path(), Rank: backend.AnyRank, Text: err.Error()}}
	}
	return plan.Library{Path: lib.Path(), Version: version, Variant: "nccl"}, nil
}

// Info says what the backend is and what it needs. The engine checks the requirements without asking.
func (*library) Info() backend.Info {
	return backend.Info{
		Name:        "library",
		Description: "a library with the NCCL ABI",
		Kind:        plan.LibraryKind,
		Requirements: backend.Requirements{
			Memories: []collective.Memory{collective.CUDA},
			Scope:    backend.OneHost,
		},
	}
}

// Accept says whether the library is there. Of another machine (hypothetical) nobody can say: what the requirements allow is
// accepted.
func (l *library) Accept(_ context.Context, req backend.Request) (backend.Verdict, error) {
	if !req.Hypothetical {
		if _, reasons := l.vetted(); len(reasons) > 0 {
			return backend.Declined(reasons...), nil
		}
	}
	return backend.Accepted(backend.AllBytes()...), nil
}

// Plan names the library that was found. Ranks that have loaded another version decline.
func (l *library) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	found, reasons := l.vetted()
	if len(reasons) > 0 {
		return nil, fmt.Errorf("no library: %s", backend.Declined(reasons...))
	}
	return &found, nil
}

// Release has nothing to end: the library is the ranks'.
func (*library) Release(context.Context, string) error { return nil }
