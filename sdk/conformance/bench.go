package conformance

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
)

// Bench is a schedule or worker plan with ranks that are goroutines, to be measured.
type Bench struct {
	team  *team
	class collective.Class
}

// NewBench is the plan of a backend for float-type or integer sums of host memory by so many ranks, whatever its byte windows
// say. Close it.
func NewBench(ctx context.Context, b backend.Backend, dt collective.DataType, world int) (*Bench, error) {
	s := newSuite(ctx, Plugin{}, b)
	s.deadline = time.Minute
	class := collective.Class{Memory: collective.Host, DataType: dt, Op: collective.Sum, Registered: s.info.Requirements.Registered}
	req := backend.Request{Group: s.group(world), Class: class}
	p, err := b.Plan(ctx, req, backend.AllBytes())
	if err != nil {
		return nil, fmt.Errorf("%s: Plan: %w", describe(req), err)
	}
	if p.Kind() == plan.KernelKind || p.Kind() == plan.LibraryKind {
		return nil, fmt.Errorf("%s: the plan is a %s, only schedules and workers are run", describe(req), p.Kind())
	}
	g, err := s.teamOf(p, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(req), err)
	}
	return &Bench{team: g, class: class}, nil
}

// Run makes n calls of so many bytes.
func (b *Bench) Run(n int, bytes int64) error {
	return b.team.each(func(rank int, run func(exec.Call) error) error {
		src, dst := b.team.buffers(rank, bytes)
		copy(src, randomFloats(b.class.DataType, bytes, uint64(rank)))
		c := exec.Call{Class: b.class, Dst: unsafe.Pointer(&dst[0]), Src: unsafe.Pointer(&src[0]), Bytes: bytes}
		for range n {
			if err := run(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close gives the plan up.
func (b *Bench) Close() { b.team.close() }
