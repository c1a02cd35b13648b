package exec

import (
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// instr is a step with everything resolved that does not depend on the call.
type instr struct {
	kind     plan.StepKind
	final    bool
	chunk    int
	forPeers bool // Copy and Reduce: other ranks read what it writes
	dst      operand
	srcs     []operand
	signal   *uint64 // Signal: this rank's; Wait: the peer's
	lag      uint64
	peer     int // Wait: whose signal, and which, for errors
	number   int
}

// operand is a place: the slot at base, one of the caller's buffers, or one of a rank's caller.
type operand struct {
	where plan.Where
	rank  int // PeerIn, PeerOut
	base  unsafe.Pointer
}

// smallBytes is the longest call whose data travels in the cache lines of the signals: each line has the signal (8
// bytes) and two copies of so much. A peer that has seen the signal then has the data too, and need not fetch a second
// line.
const smallBytes = 24

// smallOffset is where a slot lies in the calls of up to smallBytes. What the proof says of slots does not depend on
// where they are, only on that no two are in the same place.
func smallOffset(s *plan.Schedule, rank, slot, buffer int) int64 {
	return s.SignalOffset(rank, slot) + 8 + int64(buffer)*smallBytes
}

// hasSmall reports whether every slot finds room in a signal's line.
func hasSmall(s *plan.Schedule) bool { return s.Slots <= s.Signals && s.Buffers <= 2 }

// compile resolves the program of a rank once for each buffer, since the slots of a step differ between them.
func compile(s *plan.Schedule, rank int, shared unsafe.Pointer, slotOffset func(rank, slot, buffer int) int64) [][]instr {
	programs, direct := make([][]instr, s.Buffers), s.Direct()
	for buffer := range programs {
		resolve := func(p plan.Place, _ int) operand {
			o := operand{where: p.Where, rank: p.Rank}
			if p.Where == plan.Slot {
				o.base = unsafe.Add(shared, slotOffset(p.Rank, p.Slot, buffer))
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
				in.forPeers = t.Dst.Where == plan.Slot || direct && t.Kind == plan.Reduce
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
