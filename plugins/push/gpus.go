package main

import (
	"context"
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// maxWorld is the largest group that the kernels are for.
const maxWorld = plan.MaxKernelRanks

// types are what the kernels add up, in float32.
func types() []collective.DataType {
	return []collective.DataType{collective.Float32, collective.Float16, collective.BFloat16}
}

// onGPUs is what every backend requires. The kernels add in rank order, so that the bits are always the same. The PTX is of
// version 7.0, which drivers from CUDA 11.0 on take.
func onGPUs(rows []row) backend.Requirements {
	return backend.Requirements{
		WorldSizes:    []backend.Span{{Min: 2, Max: maxWorld}},
		Memories:      []collective.Memory{collective.CUDA},
		DataTypes:     types(),
		Ops:           []collective.Op{collective.Sum},
		Scope:         backend.OneHost,
		P2P:           topology.P2PVerified,
		Vendors:       []string{"nvidia"},
		Capabilities:  []string{"8.0+"},
		Driver:        "450",
		Windows:       windows(rows),
		InFlight:      1,
		Deterministic: true,
		Order:         backend.RankOrder,
	}
}

const minDriver = "11.0"

// shared is what all backends have in common.
type shared struct{}

// accept serves the windows of the requirements, of those that were measured if there are any for the group: a guess for more kinds of
// machines does not widen them.
func accept(info backend.Info, req backend.Request) (backend.Verdict, error) {
	v := info.Requirements.Check(req)
	known := info.Requirements
	known.Windows = lo.Reject(known.Windows, func(w backend.Window, _ int) bool { return w.Unmeasured })
	if v.Kind == backend.Accept && len(known.Windows) > 0 {
		if measured := known.Check(req); measured.Kind == backend.Accept {
			return measured, nil
		}
	}
	return v, nil
}

// Release has nothing to end.
func (shared) Release(context.Context, string) error { return nil }

// algorithm is how functions of an image are to be launched.
type algorithm struct {
	function string // of the image; _TYPE follows
	most     int64  // bytes
	shape    func(p place, bytes int64) shape
}

// launches is the launch table of an algorithm for byte counts above a limit, a row for each power of two and type.
func (a algorithm) launches(p place, above int64) []plan.Launch {
	const least = 1 << 10
	var rows []plan.Launch
	for limit := int64(least); limit/2 < a.most; limit *= 2 {
		lower, upper := max(limit/2, above)+1, min(limit, a.most)
		if limit == least {
			lower = above + 1
		}
		if lower > upper {
			continue
		}
		s := a.shape(p, upper)
		for _, t := range types() {
			rows = append(rows, plan.Launch{
				DataType: t.String(), Min: lower, Max: upper, Grid: s.grid, Block: s.block,
				Function: fmt.Sprintf("%s_%s", a.function, t),
			})
		}
	}
	return rows
}

// compiledFor is the world size that a group's kernels are compiled for: 2, 4 and 8 have their own, 0 is for any.
func compiledFor(world int) int {
	if world == 2 || world == 4 || world == 8 {
		return world
	}
	return 0
}

// slotBytes is what a unit of 8 bytes takes in a buffer, with its flags.
const (
	unitBytes = 8
	slotBytes = 16
	halves    = 2 // of a buffer, by the parity of the call
)

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// imageOf is the kernel image of a backend for a world size.
func imageOf(name string, world int) ([]byte, error) {
	return images.ReadFile(fmt.Sprintf("kernels/%s.%d.ptx", name, compiledFor(world)))
}
