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
		Order:         backend.RankOrder,
	}
}

// settings are the plugin's part of the configuration.
type settings struct {
	EverySize bool `json:"every_size"` // every backend accepts every size, to measure where one gets better than another
}

// shared is what all backends have in common.
type shared struct{ settings *settings }

func (s shared) everySize() bool { return s.settings != nil && s.settings.EverySize }

// Release has nothing to end.
func (shared) Release(context.Context, string) error { return nil }
