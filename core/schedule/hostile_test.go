package schedule_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/tests/await"
)

// mostMemory is what a proof may allocate. The clocks of 256 ranks that each give 64 signals are the largest part.
const mostMemory = 1 << 30

// TestTooLarge: a plan cannot keep the engine busy for long, nor fill its memory.
func TestTooLarge(t *testing.T) {
	out, in := schedule.Out(), []plan.Place{schedule.In()}
	slot := func(rank, n int) plan.Place { return schedule.Slot(rank, n) }
	copies := func(n int) []plan.Step {
		return slices.Repeat([]plan.Step{{Kind: plan.Copy, Dst: out, Srcs: in, Chunk: plan.AllChunks}}, n)
	}
	chunkwise := func(rank int) (steps []plan.Step) { // every chunk of every slot, so that much has to be remembered and compared
		for n := range 2048 {
			steps = append(steps, plan.Step{Kind: plan.Copy, Dst: slot(rank, n/256), Srcs: in, Chunk: n % 256})
		}
		return steps
	}
	all := func(rank int) (places []plan.Place) {
		for range plan.MaxWorld {
			places = append(places, slot(rank, 0))
		}
		return places
	}
	for name, c := range map[string]struct {
		s    plan.Schedule
		want string
	}{
		"steps that do nothing new": {plan.Schedule{TileBytes: 1 << 20, Buffers: 8, Chunks: 256, Programs: slices.Repeat([][]plan.Step{copies(plan.MaxSteps)}, 16)}, "leaves out without the contribution of rank 1"},
		"more steps":                {plan.Schedule{TileBytes: 1 << 20, Buffers: 8, Chunks: 1, Programs: slices.Repeat([][]plan.Step{copies(plan.MaxSteps)}, 40)}, "more than 1048576 steps"},
		"more sources": {plan.Schedule{TileBytes: 64, Buffers: 1, Slots: 1, Chunks: 1, Programs: slices.Repeat([][]plan.Step{
			slices.Repeat([]plan.Step{{Kind: plan.Reduce, Dst: out, Srcs: all(0), Chunk: plan.AllChunks}}, 1<<14),
		}, 2)}, "more than 4194304 sources"},
		"much to remember": {plan.Schedule{TileBytes: 1 << 14, Buffers: 1, Slots: 8, Chunks: 256, Programs: byRank(256, chunkwise)}, "no step writes out"},
		"many signals": {plan.Schedule{TileBytes: 64, Buffers: 8, Signals: 64, Chunks: 1, Programs: byRank(256, func(rank int) (steps []plan.Step) {
			for n := range 1024 {
				steps = append(steps, plan.Step{Kind: plan.Signal, Signal: n % 64}, plan.Step{Kind: plan.Wait, Rank: rank, Signal: n % 64, Lag: 8})
			}
			return steps
		})}, "too large to be proved"},
		"one at a time, in the worst order": {plan.Schedule{TileBytes: 64, Buffers: 8, Signals: 64, Chunks: 1, Programs: byRank(256, func(rank int) (steps []plan.Step) {
			for n := range 2048 {
				if rank < 255 || n > 0 {
					steps = append(steps, plan.Step{Kind: plan.Wait, Rank: (rank + 1) % 256, Signal: (n*256 + 254 - rank) / 256 % 64})
				}
				steps = append(steps, plan.Step{Kind: plan.Signal, Signal: n % 64})
			}
			return steps
		})}, "too large to be proved"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := schedule.Prove(&c.s)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > mostMemory {
				t.Errorf("%d bytes were allocated, at most %d", n, mostMemory)
			}
		})
	}
}

func byRank(world int, program func(rank int) []plan.Step) [][]plan.Step {
	all := make([][]plan.Step, world)
	for rank := range all {
		all[rank] = program(rank)
	}
	return all
}

// small reads a schedule of two or three ranks from bytes, five to a step.
func small(data []byte) *plan.Schedule {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		v := int(data[0])
		data = data[1:]
		return v % n
	}
	world := 2 + next(2)
	s := &plan.Schedule{TileBytes: 64 * int64(1+next(3)), Buffers: 1 + next(2), Slots: 1 + next(2), Signals: 1 + next(3), Chunks: 1 + next(2), Programs: make([][]plan.Step, world)}
	for len(data) > 0 {
		kind := plan.StepKind(next(4))
		rank, chunk := next(world), next(s.Chunks+1)-1
		place := func() plan.Place {
			v := next(16)
			return plan.Place{Where: plan.Where(v % 5), Rank: v / 5 % world, Slot: v / 5 % s.Slots}
		}
		t := plan.Step{Kind: kind}
		switch kind {
		case plan.Signal:
			t.Signal = next(s.Signals)
		case plan.Wait:
			t.Rank, t.Signal, t.Lag = next(world), next(s.Signals), next(3)
		default:
			t.Dst, t.Chunk, t.Final = place(), chunk, next(2) == 1
			for n := 1 + next(3); n > 0 && (kind == plan.Reduce || len(t.Srcs) == 0); n-- {
				t.Srcs = append(t.Srcs, place())
			}
		}
		s.Programs[rank] = append(s.Programs[rank], t)
	}
	return s
}

// bytesOf is the other direction, as far as small reads it.
func bytesOf(s *plan.Schedule) []byte {
	b := []byte{byte(len(s.Programs) - 2), byte(s.TileBytes/64 - 1), byte(s.Buffers - 1), byte(s.Slots - 1), byte(s.Signals - 1), byte(s.Chunks - 1)}
	place := func(p plan.Place) byte { return byte(int(p.Where) + 5*max(p.Rank, p.Slot)) }
	for rank, program := range s.Programs {
		for _, t := range program {
			b = append(b, byte(t.Kind), byte(rank), byte(t.Chunk+1))
			switch t.Kind {
			case plan.Signal:
				b = append(b, byte(t.Signal))
			case plan.Wait:
				b = append(b, byte(t.Rank), byte(t.Signal), byte(t.Lag))
			default:
				final := byte(0)
				if t.Final {
					final = 1
				}
				b = append(b, place(t.Dst), final, byte(len(t.Srcs)-1))
				for _, p := range t.Srcs {
					b = append(b, place(p))
				}
			}
		}
	}
	return b
}

// FuzzProve proves any small schedule. It must come to an end, its words must be there, and what it accepts must be right in
// every order in which it can be executed.
func FuzzProve(f *testing.F) {
	for _, s := range []*plan.Schedule{allreduce.Flat(2, 128), allreduce.Flat(3, 64), allreduce.TwoShot(2, 128), allreduce.Direct(2, 128), allreduce.Ring(2, 128), allreduce.RecursiveDoubling(2, 64)} {
		f.Add(bytesOf(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 150 {
			return // the brute force would take for ever
		}
		s := small(data)
		watchdog := time.AfterFunc(await.For(await.Plenty), func() { panic(fmt.Sprintf("hangs: %+v", s)) })
		defer watchdog.Stop()
		if err := schedule.Prove(s); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without words")
			}
			return
		}
		if how := wrong(s); how != "" && how != "too many cells" {
			t.Errorf("accepted, but %s: %+v", how, s)
		}
	})
}
