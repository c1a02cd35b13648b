package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule/allreduce"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// direct is a backend that needs registered memory; everything else goes to flat.
func directOrFlat() []dispatch.Candidate {
	f := &harness.Fake{
		Says:  backend.Info{Priority: 1, Requirements: backend.Requirements{Registered: true}},
		Plans: func(world int) (plan.Plan, error) { return allreduce.Direct(world, 8<<10), nil },
	}
	return []dispatch.Candidate{harness.Candidate("direct", f), harness.Candidate("flat", &harness.Fake{})}
}

// sumsInto checks a few all-reduces from src into dst, whose contents change from call to call.
func sumsInto(g *rank.Group, dst, src []float32) error {
	n, ranks := len(src), float32(g.Size())
	for call := range 5 {
		for i := range src {
			src[i] = float32(g.Rank() + i%7 + call)
		}
		if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
			return err
		}
		for i := range n {
			if want := ranks*(ranks-1)/2 + ranks*float32(i%7+call); dst[i] != want {
				return fmt.Errorf("call %d, element %d of %d is %v, want %v", call, i, n, dst[i], want)
			}
		}
	}
	return nil
}

func TestRegisteredMemory(t *testing.T) {
	for _, world := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			j := harness.StartAgent(t, world, nil, directOrFlat()...)
			harness.NoErrors(t, j.Each(t, world, func(s *rank.Session) error {
				g := s.World()
				first, err := g.Alloc(t.Context(), 100_001)
				if err != nil {
					return err
				}
				second, err := g.Alloc(t.Context(), 50_000)
				if err != nil {
					return err
				}
				if slices.ContainsFunc(first, func(b byte) bool { return b != 0 }) || len(first) != 100_001 {
					return fmt.Errorf("%d bytes, or not zeroed", len(first))
				}
				a, b := rank.As[float32](first), rank.As[float32](second)
				at := 16 * g.Rank() // every rank's buffers lie elsewhere
				for _, n := range []int{1, 100, 5000} {
					if err := sumsInto(g, b[at:at+n], a[at:at+n]); err != nil { // across windows
						return err
					}
					if err := sumsInto(g, a[at:at+n], a[at:at+n]); err != nil { // in place
						return err
					}
					if err := sumsInto(g, make([]float32, n), a[:n]); err != nil { // one buffer is not registered
						return err
					}
				}
				class := collective.Class{DataType: collective.Float32, Registered: true}
				if got := g.Backend(class, 400); got != "direct" {
					return fmt.Errorf("registered calls go to %q", got)
				}
				if err := g.Free(first); err != nil {
					return err
				}
				if err := sumsInto(g, b[at:at+100], b[at:at+100]); err != nil { // the second window keeps its number
					return err
				}
				return g.Free(second)
			}))
			if got := len(j.Decided()); got != 2 {
				t.Errorf("%d decisions, want one for registered memory and one for the rest", got)
			}
		})
	}
}

func TestAllocRefusals(t *testing.T) {
	world := 3
	small := func(o *agent.Options) { o.MaxShared, o.CallDeadline = 1<<20, await.For(300*time.Millisecond) }
	for name, c := range map[string]struct {
		do    func(g *rank.Group) error
		apart bool // the ranks do not agree, so that they do not come to what follows together
		want  string
	}{
		"nothing":         {func(g *rank.Group) error { _, err := g.Alloc(t.Context(), 0); return err }, false, "give 1 to"},
		"negative":        {func(g *rank.Group) error { _, err := g.Alloc(t.Context(), -1); return err }, false, "give 1 to"},
		"too much":        {func(g *rank.Group) error { _, err := g.Alloc(t.Context(), 512<<10); return err }, false, "bytes left (shared.max_bytes)"},
		"far too much":    {func(g *rank.Group) error { _, err := g.Alloc(t.Context(), 1<<40); return err }, false, "shared.max_bytes"},
		"another size":    {func(g *rank.Group) error { _, err := g.Alloc(t.Context(), 100+g.Rank()/2); return err }, true, "allocate 10"},
		"rank 2 is out":   {rank2Late(), true, "allocate 100 bytes"},
		"not from here":   {func(g *rank.Group) error { return g.Free(make([]byte, 10)) }, false, "it is not what Alloc returned"},
		"nothing to free": {func(g *rank.Group) error { return g.Free(nil) }, false, "it is not what Alloc returned"},
	} {
		t.Run(name, func(t *testing.T) {
			j := harness.StartAgent(t, world, small, directOrFlat()...)
			var answered sync.WaitGroup
			answered.Add(world)
			harness.WantErrors(t, j.Each(t, world, func(s *rank.Session) error {
				err := c.do(s.World())
				answered.Done()
				if c.apart {
					answered.Wait() // nobody leaves before
					return err
				}
				if after := harness.SumIsRight(s.World(), 10); after != nil {
					return fmt.Errorf("the group is of no use any more: %w", after)
				}
				return err
			}), c.want)
		})
	}
}

// rank2Late has three ranks allocate, but rank 2 comes when the others have given up, and then sees that nobody else does.
func rank2Late() func(g *rank.Group) error {
	var others sync.WaitGroup
	others.Add(2)
	return func(g *rank.Group) error {
		if g.Rank() == 2 {
			others.Wait()
		} else {
			defer others.Done()
		}
		_, err := g.Alloc(context.Background(), 100)
		return err
	}
}

// TestRegisteredByOne: a rank whose memory is not registered makes another call than the others, which all are told.
func TestRegisteredByOne(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, directOrFlat()...)
	errs := j.Each(t, 2, func(s *rank.Session) error {
		memory, err := s.World().Alloc(t.Context(), 4096)
		if err != nil {
			return err
		}
		x := rank.As[float32](memory)
		if err := sumsInto(s.World(), x, x); err != nil {
			return err
		}
		if err := harness.SumIsRight(s.World(), 1024); err != nil {
			return err
		}
		if s.World().Rank() == 1 {
			x = make([]float32, len(x))
		}
		return rank.AllReduce(s.World(), x, x, collective.Sum)
	})
	harness.WantErrors(t, errs, "ranks disagree about all-reduce 7", "rank 0: all-reduce 7 of 4096 bytes, host float32 sum eager registered", "rank 1: all-reduce 7 of 4096 bytes, host float32 sum eager")
	for _, err := range errs {
		if strings.Count(err.Error(), "registered") != 1 {
			t.Errorf("%v: want one rank with registered memory", err)
		}
	}
}

// TestRegisteredMemoryComesAndGoes: a program may allocate and free for as long as it likes, ranks at their own pace, within
// what the group may have at a time; sums in what is new, and in what stays, are right.
func TestRegisteredMemoryComesAndGoes(t *testing.T) {
	const world, bytes, rounds = 3, 64 << 10, 200
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.MaxShared = 4*world*bytes + 8<<20 }, directOrFlat()...)
	harness.NoErrors(t, j.Each(t, world, func(s *rank.Session) error {
		g := s.World()
		stays, err := g.Alloc(t.Context(), bytes)
		if err != nil {
			return err
		}
		for round := range rounds {
			first, err := g.Alloc(t.Context(), bytes)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			second, err := g.Alloc(t.Context(), bytes)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if slices.ContainsFunc(first, func(b byte) bool { return b != 0 }) {
				return fmt.Errorf("round %d: the memory is not zeroed", round)
			}
			for _, buffers := range [][2][]byte{{first, second}, {stays, first}, {second, stays}} {
				if err := sumsInto(g, rank.As[float32](buffers[0])[:64], rank.As[float32](buffers[1])[:64]); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			both := [][]byte{first, second}
			if (round+g.Rank())%2 == 0 {
				slices.Reverse(both)
			}
			for _, memory := range both {
				if err := g.Free(memory); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}
