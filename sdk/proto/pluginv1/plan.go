package pluginv1

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// FromPlan is the message of a plan. A nil plan, also one that is a nil pointer, becomes a message that ToPlan refuses.
func FromPlan(p plan.Plan) *Plan {
	switch p := p.(type) {
	case *plan.Schedule:
		if p != nil {
			return &Plan{Kind: &Plan_Schedule{fromSchedule(p)}}
		}
	case *plan.Kernel:
		if p != nil {
			return &Plan{Kind: &Plan_Kernel{fromKernel(p)}}
		}
	case *plan.Library:
		if p != nil {
			return &Plan{Kind: &Plan_Library{&NcclLibrary{Path: text(p.Path), Version: text(p.Version), Variant: text(p.Variant)}}}
		}
	case *plan.Worker:
		if p != nil {
			return &Plan{Kind: &Plan_Worker{&Worker{SlotBytes: p.SlotBytes, Slots: i32(p.Slots)}}}
		}
	}
	return &Plan{}
}

func fromSchedule(s *plan.Schedule) *Schedule {
	return &Schedule{
		TileBytes: s.TileBytes, Buffers: i32(s.Buffers), Slots: i32(s.Slots), Signals: i32(s.Signals), Chunks: i32(s.Chunks),
		Programs: each(s.Programs, func(steps []plan.Step) *Program { return &Program{Steps: each(steps, fromStep)} }),
	}
}

func fromStep(t plan.Step) *Step {
	return &Step{
		Kind: Step_Kind(t.Kind), Dst: fromPlace(t.Dst), Srcs: each(t.Srcs, fromPlace), Chunk: i32(t.Chunk), Final: t.Final,
		Rank: i32(t.Rank), Signal: i32(t.Signal), Lag: i32(t.Lag),
	}
}

func fromPlace(p plan.Place) *Place {
	return &Place{Where: Place_Where(p.Where), Rank: i32(p.Rank), Slot: i32(p.Slot)}
}

func fromKernel(k *plan.Kernel) *Kernel {
	return &Kernel{
		Image: k.Image, Launches: each(k.Launches, fromLaunch), BufferBytes: k.BufferBytes,
		PollsAbort: k.PollsAbort, MinDriver: text(k.MinDriver), Buffer: text(string(k.Buffer)),
	}
}

func fromLaunch(l plan.Launch) *Launch {
	return &Launch{
		DataType: text(l.DataType), Min: l.Min, Max: l.Max, Function: text(l.Function),
		Grid: i32(l.Grid), Block: i32(l.Block), SharedBytes: i32(l.SharedBytes),
		Arguments: each(l.Arguments, func(a plan.Argument) string { return text(string(a)) }),
	}
}

// ToPlan reads a plan. Whether it is possible for a group is for the plan's Validate to say.
func ToPlan(m *Plan) (plan.Plan, error) {
	if m == nil {
		return nil, errors.New("missing plan")
	}
	switch k := m.GetKind().(type) {
	case *Plan_Schedule:
		return toSchedule(k.Schedule)
	case *Plan_Kernel:
		return toKernel(k.Kernel)
	case *Plan_Library:
		l := k.Library
		return &plan.Library{Path: l.GetPath(), Version: l.GetVersion(), Variant: l.GetVariant()}, nil
	case *Plan_Worker:
		return &plan.Worker{SlotBytes: k.Worker.GetSlotBytes(), Slots: int(k.Worker.GetSlots())}, nil
	}
	return nil, errors.New("empty plan: neither a schedule nor a kernel, library or worker")
}

func toSchedule(m *Schedule) (plan.Plan, error) {
	s := &plan.Schedule{
		TileBytes: m.GetTileBytes(), Buffers: int(m.GetBuffers()), Slots: int(m.GetSlots()),
		Signals: int(m.GetSignals()), Chunks: int(m.GetChunks()),
	}
	if err := bounded(m.GetPrograms()); err != nil {
		return nil, err
	}
	var err error
	s.Programs, err = eachErr("schedule: program", m.GetPrograms(), func(p *Program) ([]plan.Step, error) {
		return eachErr("step", p.GetSteps(), toStep)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// bounded refuses what no schedule has before it takes the memory: a step is some fifty times as long as it can be in a message.
func bounded(programs []*Program) error {
	steps, sources := 0, 0
	for _, p := range programs {
		if steps += len(p.GetSteps()); steps > plan.MaxAllSteps {
			return fmt.Errorf("schedule: more than %d steps of all ranks", plan.MaxAllSteps)
		}
		for _, t := range p.GetSteps() {
			if sources += len(t.GetSrcs()); sources > plan.MaxSources {
				return fmt.Errorf("schedule: more than %d sources of all steps", plan.MaxSources)
			}
		}
	}
	if n := len(programs); n > plan.MaxWorld {
		return fmt.Errorf("schedule: %d programs, at most %d", n, plan.MaxWorld)
	}
	return nil
}

func toStep(m *Step) (plan.Step, error) {
	if m == nil {
		return plan.Step{}, errors.New("missing step")
	}
	// Checked before it is narrowed: 256 must not become a copy.
	if k := m.GetKind(); k < Step_COPY || k > Step_WAIT {
		return plan.Step{}, fmt.Errorf("unknown instruction %d", k)
	}
	t := plan.Step{
		Kind: plan.StepKind(m.GetKind()), Chunk: int(m.GetChunk()), Final: m.GetFinal(),
		Rank: int(m.GetRank()), Signal: int(m.GetSignal()), Lag: int(m.GetLag()),
	}
	var err error
	if t.Dst, err = toPlace(m.GetDst()); err != nil {
		return plan.Step{}, fmt.Errorf("destination: %w", err)
	}
	t.Srcs, err = eachErr("source", m.GetSrcs(), toPlace)
	return t, err
}

// toPlace reads a missing place as the zero one, as the instructions that have none send it.
func toPlace(m *Place) (plan.Place, error) {
	if w := m.GetWhere(); w < Place_IN || w > Place_PEER_OUT {
		return plan.Place{}, fmt.Errorf("unknown place %d", w)
	}
	return plan.Place{Where: plan.Where(m.GetWhere()), Rank: int(m.GetRank()), Slot: int(m.GetSlot())}, nil
}

func toKernel(m *Kernel) (plan.Plan, error) {
	k := &plan.Kernel{
		Image: m.GetImage(), BufferBytes: m.GetBufferBytes(), PollsAbort: m.GetPollsAbort(), MinDriver: m.GetMinDriver(),
		Buffer: cmp.Or(plan.BufferMemory(m.GetBuffer()), plan.DeviceBuffer),
	}
	var err error
	k.Launches, err = eachErr("kernel: launch", m.GetLaunches(), func(l *Launch) (plan.Launch, error) {
		if l == nil {
			return plan.Launch{}, errors.New("missing launch")
		}
		return plan.Launch{
			DataType: l.GetDataType(), Min: l.GetMin(), Max: l.GetMax(), Function: l.GetFunction(),
			Grid: int(l.GetGrid()), Block: int(l.GetBlock()), SharedBytes: int(l.GetSharedBytes()),
			Arguments: each(l.GetArguments(), func(a string) plan.Argument { return plan.Argument(a) }),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}
