package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

// edit is a schedule with one program changed.
func edit(s *plan.Schedule, rank int, do func([]plan.Step) []plan.Step) *plan.Schedule {
	s = clone(s)
	s.Programs[rank] = do(s.Programs[rank])
	return s
}

func drop(s *plan.Schedule, rank, step int) *plan.Schedule {
	return edit(s, rank, func(p []plan.Step) []plan.Step { return append(p[:step], p[step+1:]...) })
}

// TestCounterExamples: a refusal says where, what, and who else.
func TestCounterExamples(t *testing.T) {
	flat, twoShot := allreduce.Flat(4, 4096), allreduce.TwoShot(3, 4096)
	one := clone(flat)
	one.Buffers = 1
	circle := clone(twoShot)
	for _, p := range circle.Programs {
		p[2], p[3] = p[3], p[2] // wait, then signal
	}
	for name, c := range map[string]struct {
		s      *plan.Schedule
		want   string
		detail string
	}{
		"missing wait": {
			drop(flat, 2, 4),
			"schedule: rank 2, step 4 (reduce out <- slot 0 of ranks 0..3, final), tile 1: reads slot 0 of rank 1, which rank 1 may be writing " +
				"in its step 0 (copy slot 0 of rank 1 <- in) for the same tile: nothing orders the two",
			"  rank 1: has done nothing yet\n  rank 2: has done step 3 (wait for signal 0 of rank 0) for tile 1\n",
		},
		"one copy": {
			one,
			"schedule: rank 3, step 5 (reduce out <- slot 0 of ranks 0..3, final), tile 1: reads slot 0 of rank 0, which rank 0 may be overwriting " +
				"in its step 0 (copy slot 0 of rank 0 <- in) for tile 2: nothing orders the two",
			"  rank 0: has done step 5 (reduce out <- slot 0 of ranks 0..3, final) for tile 1\n",
		},
		"missing signal": {
			drop(flat, 1, 1), "schedule: rank 0, step 2 (wait for signal 0 of rank 1), tile 1: waits for ever: rank 1 has no step that gives signal 0", "",
		},
		"circle": {
			circle,
			"schedule: rank 0, step 2 (wait for signal 0 of rank 1), tile 1: waits for ever: rank 1 gives signal 0 only in step 3, after its step 2 " +
				"(wait for signal 0 of rank 2); rank 2 gives signal 0 only in step 3, after its step 2 (wait for signal 0 of rank 0); rank 0 gives",
			"  rank 2 stops in step 2 (wait for signal 0 of rank 0)",
		},
		"twice": {
			edit(flat, 3, func(p []plan.Step) []plan.Step { p[5].Srcs[0] = schedule.Slot(1, 0); return p }),
			"schedule: rank 3, step 5 (reduce out <- slot 0 of rank 1, slot 0 of ranks 1..3, final), tile 1: adds the contribution of rank 1 twice", "",
		},
		"left out": {
			edit(twoShot, 2, func(p []plan.Step) []plan.Step { p[5].Srcs = p[5].Srcs[:2]; return p }),
			"rank 2, step 5 (reduce slot 0 of rank 2 <- slot 0 of rank 0, slot 0 of rank 1, chunk 2, final), tile 1: is marked final without the contribution " +
				"of rank 2 in chunk 2", "It ends up in the out of rank 0",
		},
		"never final": {
			edit(flat, 0, func(p []plan.Step) []plan.Step { p[5].Final = false; return p }),
			"leaves a result in out that never passed a final step", "",
		},
		"no result":   {drop(flat, 3, 5), "schedule: rank 3, tile 1: no step writes out", ""},
		"in place":    {early(), "reads in after step 4 has written out: in a call in place they are the same memory", ""},
		"nobody's":    {drop(twoShot, 1, 7), "rank 1, tile 1: no step writes out in chunk 1", ""},
		"not written": {edit(flat, 1, func(p []plan.Step) []plan.Step { p[0].Dst = schedule.Out(); return p }), "reads slot 0 of rank 1, which nobody has written by then", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := schedule.Prove(c.s)
			var refused *schedule.Refused
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if got := strings.Join(refused.Details(), "\n"); !strings.Contains(got, c.detail) {
				t.Errorf("got %s\nwant %s", got, c.detail)
			}
		})
	}
}

// early writes out before it has read all of in.
func early() *plan.Schedule {
	return edit(allreduce.Flat(3, 4096), 0, func(p []plan.Step) []plan.Step {
		p[4].Srcs[0] = schedule.In()
		first := plan.Step{Kind: plan.Copy, Dst: schedule.Out(), Srcs: []plan.Place{schedule.Slot(1, 0)}, Chunk: plan.AllChunks}
		return append(p[:4], first, p[4])
	})
}

func TestMalformedIsNotRefused(t *testing.T) {
	s := allreduce.Flat(2, 4096)
	s.TileBytes = 1
	var refused *schedule.Refused
	if err := schedule.Prove(s); err == nil || errors.As(err, &refused) {
		t.Errorf("got %v, want what Validate says", err)
	}
}

func TestProver(t *testing.T) {
	p := schedule.NewProver(2)
	bad := drop(allreduce.Flat(2, 4096), 0, 2)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if err := p.Prove(allreduce.Flat(2+i%4, 4096)); err != nil {
				t.Error(err)
			}
			if err := p.Prove(clone(bad)); err == nil {
				t.Error("a wrong schedule was accepted")
			}
		})
	}
	wg.Wait()
	one, again := p.Prove(bad), p.Prove(clone(bad))
	if one != again {
		t.Error("an equal schedule was proved twice")
	}
	for _, s := range mutants(allreduce.TwoShot(2, 4096)) { // every change makes another schedule
		if got, want := p.Prove(s.s), schedule.Prove(s.s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", s.what, got, want)
		}
	}
}

func BenchmarkProve(b *testing.B) {
	for _, world := range []int{8, 64, 256} {
		b.Run(fmt.Sprint(world), func(b *testing.B) {
			s := allreduce.TwoShot(world, 256<<10)
			for b.Loop() {
				if err := schedule.Prove(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkProver is what a schedule costs that was proved before.
func BenchmarkProver(b *testing.B) {
	for _, world := range []int{8, 64} {
		b.Run(fmt.Sprint(world), func(b *testing.B) {
			s, p := allreduce.TwoShot(world, 256<<10), schedule.NewProver(1)
			for b.Loop() {
				if err := p.Prove(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
