package main

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// settings are what the configuration may say (plugins.nccl.settings).
type settings struct {
	Library string `json:"library"` // absolute path of the library; "" looks for one
	Variant string `json:"variant"` // whose library it is, as plan.Library names them
}

// library is the backend. What was found is kept, so that the same question gets the same answer.
type library struct {
	settings  settings
	symmetric bool // the backend for registered memory
	prober    prober

	mu     sync.Mutex
	probes map[string]*probe // by the path of the ranks' own copy; "" for none
}

// newSymmetric is the backend for calls on registered memory.
func newSymmetric() *library {
	return &library{settings: settings{Variant: "nccl-symm"}, symmetric: true, probes: map[string]*probe{}}
}

func newLibrary() *library {
	return &library{settings: settings{Variant: "nccl"}, probes: map[string]*probe{}}
}

// probe is one look for a library.
type probe struct {
	done    chan struct{}
	found   plan.Library
	reasons []backend.Reason // why there is none
}

// configure takes the settings; decode fills a struct from them.
func (l *library) configure(decode func(any) error) error {
	s := l.settings
	if err := decode(&s); err != nil {
		return err
	}
	if err := (&plan.Library{Path: "/", Variant: s.Variant}).Validate(1); err != nil {
		return fmt.Errorf("setting variant: unknown %q, want nccl, nccl-symm, rccl or mscclpp", s.Variant)
	}
	if s.Library != "" && s.Library[0] != '/' {
		return fmt.Errorf("setting library: %q is not an absolute path", s.Library)
	}
	if s.Variant != "nccl" && s.Variant != "nccl-symm" && s.Library == "" {
		return fmt.Errorf("setting variant: %s needs the path of its library in the setting library", s.Variant)
	}
	l.settings = s
	return nil
}

func (l *library) Info() backend.Info {
	if l.symmetric {
		return backend.Info{
			Name:        "nccl-symm",
			Description: "NCCL's kernels for symmetric memory; serves calls on registered GPU memory (Group.AllocDevice)",
			Kind:        plan.LibraryKind,
			Priority:    50,
			Requirements: backend.Requirements{
				Memories: []collective.Memory{collective.CUDA}, Registered: true, Scope: backend.OneHost, WorldSizes: []backend.Span{{Min: 2, Max: math.MaxInt32}},
			},
		}
	}
	return backend.Info{
		Name:        "nccl",
		Description: "NCCL, or another library with its ABI; serves every call on GPU memory",
		Kind:        plan.LibraryKind,
		Priority:    -100,
		Requirements: backend.Requirements{
			Memories: []collective.Memory{collective.CUDA},
		},
	}
}

// Accept looks for the driver and the library, unless the machine is another one: then only what is known of the
// ranks' own copies counts.
func (l *library) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	own, verdict := l.ownCopy(req.Group)
	if verdict.Kind != backend.Accept {
		return verdict, nil
	}
	if l.symmetric {
		if reasons := reachable(req.Group); len(reasons) > 0 {
			return backend.Declined(reasons...), nil
		}
	}
	if verdict = devices(req.Group); verdict.Kind != backend.Accept {
		return verdict, nil
	}
	if req.Hypothetical {
		return verdict, nil
	}
	p, err := l.probe(ctx, own.Path)
	if err != nil {
		return backend.Verdict{}, err
	}
	reasons := p.reasons
	if len(reasons) == 0 && own.Version != "" && p.found.Version != own.Version {
		reasons = []backend.Reason{backend.Because(backend.Version, fmt.Sprintf("%s at %s", p.found.Version, p.found.Path), own.Version+" as the ranks loaded")}
	}
	if len(reasons) > 0 {
		return backend.Declined(reasons...), nil
	}
	if set := l.settings.Library; own.Path != "" && set != "" && own.Path != set {
		verdict.Reasons = append(verdict.Reasons, backend.Reason{
			Code: backend.Other, Rank: backend.AnyRank, Text: fmt.Sprintf("ranks have loaded %s, which is taken instead of %s of the settings", own.Path, set),
		})
	}
	return verdict, nil
}

// Plan names the library that Accept found.
func (l *library) Plan(ctx context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	v, err := l.Accept(ctx, req)
	if err != nil {
		return nil, err
	}
	if v.Kind != backend.Accept {
		return nil, fmt.Errorf("no plan for a group that is not accepted: %s", v)
	}
	own, _ := l.ownCopy(req.Group)
	p, err := l.probe(ctx, own.Path)
	if err != nil {
		return nil, err
	}
	if len(p.reasons) > 0 {
		return nil, fmt.Errorf("no library: %s", backend.Declined(p.reasons...))
	}
	found := p.found
	return &found, nil
}

// Release does nothing: the library is the ranks'.
func (l *library) Release(context.Context, string) error { return nil }

// probe waits for the look for a library, which the first question starts; loading one may take seconds.
func (l *library) probe(ctx context.Context, own string) (*probe, error) {
	l.mu.Lock()
	p, started := l.probes[own]
	if !started {
		p = &probe{done: make(chan struct{})}
		l.probes[own] = p
		s := l.settings
		go func() {
			defer close(p.done)
			p.found, p.reasons = l.prober.look(s, own)
		}()
	}
	l.mu.Unlock()
	select {
	case <-p.done:
		return p, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("look for the library: %w", ctx.Err())
	}
}

var _ backend.Backend = (*library)(nil)
