package main

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// maxWorld is the most ranks that the schedules serve. It bounds the plan: two-shot has about 2·ranks steps for each.
const maxWorld = 64

// onHost is what both backends require: ranks of one host, buffers in host memory; every data type and op. Both add in
// rank order, on every rank or on one for all, so that the bits are always the same.
func onHost(least int) backend.Requirements {
	return backend.Requirements{
		WorldSizes:    []backend.Span{{Min: least, Max: maxWorld}},
		Memories:      []collective.Memory{collective.Host},
		Scope:         backend.OneHost,
		Deterministic: true,
	}
}

// stateless is the part of a Backend that is the same where the requirements say everything and nothing is held.
type stateless struct{}

// Accept serves whatever the requirements let through.
func (stateless) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Release has nothing to end.
func (stateless) Release(context.Context, string) error { return nil }
