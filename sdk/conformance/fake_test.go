package conformance

import (
	"context"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// fake is a right backend whose parts a test breaks.
type fake struct {
	info   backend.Info
	again  func() // called by Info
	accept func(context.Context, backend.Request) (backend.Verdict, error)
	plan   func(world int) (plan.Plan, error)

	planning func(backend.Request) error // called first by Plan; may be nil

	release func(context.Context, string) error
}

func newFake() *fake {
	return &fake{
		info: backend.Info{
			Name: "fake", Description: "adds up on every rank", Kind: plan.ScheduleKind,
			Requirements: backend.Requirements{
				WorldSizes: []backend.Span{{Min: 2, Max: 4}}, Memories: []collective.Memory{collective.Host},
				DataTypes: []collective.DataType{collective.Float32, collective.BFloat16},
				Ops:       []collective.Op{collective.Sum, collective.Avg}, Scope: backend.OneHost, Deterministic: true,
			},
		},
		accept: func(context.Context, backend.Request) (backend.Verdict, error) {
			return backend.Accepted(backend.AllBytes()...), nil
		},
		plan:    func(world int) (plan.Plan, error) { return flat(world, nil), nil },
		release: func(context.Context, string) error { return nil },
	}
}

func (f *fake) Info() backend.Info {
	if f.again != nil {
		defer f.again()
	}
	return f.info
}

func (f *fake) Accept(ctx context.Context, r backend.Request) (backend.Verdict, error) {
	return f.accept(ctx, r)
}

func (f *fake) Plan(_ context.Context, r backend.Request, _ []backend.Range) (plan.Plan, error) {
	if f.planning != nil {
		if err := f.planning(r); err != nil {
			return nil, err
		}
	}
	return f.plan(r.Group.WorldSize())
}

func (f *fake) Release(ctx context.Context, group string) error { return f.release(ctx, group) }

// flat is a right schedule, or with a change of its last step another.
func flat(world int, change func(r *schedule.Rank, last func(srcs []plan.Place))) *plan.Schedule {
	shape := schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 2, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		last := func(srcs []plan.Place) { r.ReduceFinal(schedule.Out(), srcs, plan.AllChunks) }
		if change == nil {
			r.WaitAll(0)
			last(r.Slots(0))
			return
		}
		change(r, last)
	})
}

// hasty is a schedule whose rank 0 adds up before the others have filled their slots.
func hasty(world int) *plan.Schedule {
	shape := schedule.Shape{TileBytes: 4096, Buffers: 2, Slots: 1, Signals: 2, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		add := func() { r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks) }
		if r.Rank == 0 {
			r.Copy(schedule.Slot(0, 0), schedule.In(), plan.AllChunks)
			add()
			r.Signal(0)
		} else {
			r.Wait(0, 0)
			r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		}
		r.Signal(1)
		r.WaitAll(1)
		if r.Rank != 0 {
			add()
		}
	})
}

func broken(change func(*schedule.Rank, func([]plan.Place))) func(*fake) {
	return func(f *fake) {
		f.plan = func(world int) (plan.Plan, error) { return flat(world, change), nil }
	}
}

func always(v backend.Verdict) func(context.Context, backend.Request) (backend.Verdict, error) {
	return func(context.Context, backend.Request) (backend.Verdict, error) { return v, nil }
}

func declineFor(dt collective.DataType) func(context.Context, backend.Request) (backend.Verdict, error) {
	return func(_ context.Context, r backend.Request) (backend.Verdict, error) {
		if r.Class.DataType == dt {
			return backend.Declined(backend.Because(backend.DType, dt.String(), "another")), nil
		}
		return backend.Accepted(backend.AllBytes()...), nil
	}
}

// kernelPlan has a backend of kernels, right but for the change.
func kernelPlan(change func(*plan.Kernel)) func(*fake) {
	return func(f *fake) {
		f.info.Kind = plan.KernelKind
		f.info.Requirements.Memories = []collective.Memory{collective.CUDA}
		f.plan = func(int) (plan.Plan, error) {
			k := &plan.Kernel{
				Image:  []byte(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry sum(.param .u64 a, .param .u64 b)\n{ ret; }\n"),
				Buffer: plan.DeviceBuffer, BufferBytes: 1 << 10,
			}
			for _, dt := range f.info.Requirements.DataTypes {
				k.Launches = append(k.Launches, plan.Launch{
					DataType: dt.String(), Min: 1, Max: backend.NoLimit, Function: "sum", Grid: 1, Block: 32, Arguments: []plan.Argument{plan.ArgIn, plan.ArgOut},
				})
			}
			change(k)
			return k, nil
		}
	}
}
