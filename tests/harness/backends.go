package harness

import (
	"context"
	"slices"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// Fake is a backend in this process whose answers a test chooses.
type Fake struct {
	Says    backend.Info
	Accepts func() (backend.Verdict, error)
	Plans   func(world int) (plan.Plan, error)
}

func (f *Fake) Info() backend.Info { return f.Says }

func (f *Fake) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	if f.Accepts == nil {
		return backend.Accepted(backend.AllBytes()...), nil
	}
	return f.Accepts()
}

func (f *Fake) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	return f.Plans(req.Group.WorldSize())
}

func (f *Fake) Release(context.Context, string) error { return nil }

// Flat is a right schedule: copy to a slot, signal, wait for all, reduce.
func Flat(world int) (plan.Plan, error) {
	return schedule.Build(world, schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	}), nil
}

// Wrong is a schedule that leaves out the last rank.
func Wrong(world int) (plan.Plan, error) {
	return schedule.Build(world, schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), append(r.Slots(0)[:world-1], schedule.Slot(0, 0)), plan.AllChunks)
	}), nil
}

// Hasty is Flat whose rank 1 does not wait for rank 0.
func Hasty(world int) (plan.Plan, error) {
	p, err := Flat(world)
	program := p.(*plan.Schedule).Programs[1]
	for i, t := range program {
		if t.Kind == plan.Wait && t.Rank == 0 {
			p.(*plan.Schedule).Programs[1] = slices.Delete(program, i, i+1)
			break
		}
	}
	return p, err
}

// Candidate is a backend whose plan is a schedule: Flat unless it says another.
func Candidate(name string, f *Fake) dispatch.Candidate {
	f.Says.Name, f.Says.Kind = name, plan.ScheduleKind
	if f.Plans == nil {
		f.Plans = Flat
	}
	return dispatch.Candidate{Plugin: "test", Info: f.Says, Backend: f}
}
