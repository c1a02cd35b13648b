package exec

import (
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// instr is a step with everything resolved that does not depend on the call.
type instr struct {
	kind   plan.StepKind
	final  bool
	chunk  int
	dst    operand
	srcs   []operand
	signal *uint64 // Signal: this rank's; Wait: the peer's
	lag    uint64
	peer   int // Wait: whose signal, and which, for errors
	number int
}

// operand is a place: the slot at base, or one of the caller's buffers.
type operand struct {
	where plan.Where
	base  unsafe.Pointer
}

// compile resolves the program of a rank once for each buffer, since the slots of a step differ between them.
func compile(s *plan.Schedule, rank int, shared unsafe.Pointer) [][]instr {
	programs := make([][]instr, s.Buffers)
	for buffer := range programs {
		resolve := func(p plan.Place, _ int) operand {
			o := operand{where: p.Where}
			if p.Where == plan.Slot {
				o.base = unsafe.Add(shared, s.SlotOffset(p.Rank, p.Slot, buffer))
			}
			return o
		}
		signal := func(owner, number int) *uint64 {
			return (*uint64)(unsafe.Add(shared, s.SignalOffset(owner, number)))
		}
		programs[buffer] = lo.Map(s.Programs[rank], func(t plan.Step, _ int) instr {
			in := instr{kind: t.Kind, final: t.Final, chunk: t.Chunk, lag: uint64(t.Lag), peer: t.Rank, number: t.Signal}
			switch t.Kind {
			case plan.Signal:
				in.signal = signal(rank, t.Signal)
			case plan.Wait:
				in.signal = signal(t.Rank, t.Signal)
			default:
				in.dst, in.srcs = resolve(t.Dst, 0), lo.Map(t.Srcs, resolve)
			}
			return in
		})
	}
	return programs
}

func mostSources(program []plan.Step) int {
	most := 0
	for _, t := range program {
		most = max(most, len(t.Srcs))
	}
	return most
}
