package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

func TestGroupsAllReduce(t *testing.T) {
	for _, world := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			j := harness.StartAgent(t, world, nil, harness.Candidate("flat", &harness.Fake{}))
			harness.NoErrors(t, j.Each(t, world, func(s *rank.Session) error {
				for _, n := range []int{1, 1024, 1025, 5000} {
					if err := harness.SumIsRight(s.World(), n); err != nil {
						return err
					}
				}
				return nil
			}))
			if all := j.Decided(); len(all) != 1 {
				t.Errorf("%d decisions for one class, want 1", len(all))
			}
		})
	}
}

func TestSubgroups(t *testing.T) {
	j := harness.StartAgent(t, 4, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 4, func(s *rank.Session) error {
		pair := []int{0, 1}
		if s.World().Rank() >= 2 {
			pair = []int{3, 2} // in another order than World's
		}
		g, err := s.NewGroup(t.Context(), pair)
		if err != nil {
			return err
		}
		if want := map[int]int{0: 0, 1: 1, 2: 1, 3: 0}[s.World().Rank()]; g.Rank() != want {
			return fmt.Errorf("rank %d in the new group, want %d", g.Rank(), want)
		}
		if err := harness.SumIsRight(g, 100); err != nil {
			return err
		}
		all, err := s.World().Exchange(t.Context(), []byte{byte(10 + s.World().Rank())})
		if err != nil {
			return err
		}
		for r, b := range all {
			if len(b) != 1 || b[0] != byte(10+r) {
				return fmt.Errorf("exchange: rank %d gave %v", r, b)
			}
		}
		return errors.Join(harness.SumIsRight(s.World(), 10), g.Close())
	}))
}

func TestSplit(t *testing.T) {
	j := harness.StartAgent(t, 4, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 4, func(s *rank.Session) error {
		me := s.World().Rank()
		even, err := s.World().Split(t.Context(), me%2, -me) // the highest rank first
		if err != nil {
			return err
		}
		if want := [][]int{{2, 0}, {3, 1}}[me%2]; !cmp.Equal(even.Ranks(), want) {
			return fmt.Errorf("rank %d is with %v, want %v", me, even.Ranks(), want)
		}
		if err := harness.SumIsRight(even, 10); err != nil {
			return err
		}
		color := []int{5, -1, 5, 5}[me]
		same, err := s.World().Split(t.Context(), color, 0) // by rank where keys are the same
		if err != nil {
			return err
		}
		if color < 0 {
			if same != nil {
				return fmt.Errorf("a negative color made the group %v", same.Ranks())
			}
			return nil
		}
		if !cmp.Equal(same.Ranks(), []int{0, 2, 3}) {
			return fmt.Errorf("rank %d is with %v, want 0, 2, 3", me, same.Ranks())
		}
		return errors.Join(harness.SumIsRight(same, 10), same.Close())
	}))
}

// TestDecisionDoesNotDependOnWhoAsksFirst has every rank come first once.
func TestDecisionDoesNotDependOnWhoAsksFirst(t *testing.T) {
	const world = 3
	var decisions []dispatch.Decision
	for first := range world {
		small := &harness.Fake{Accepts: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 100}), nil }}
		small.Says.Priority = 1
		j := harness.StartAgent(t, world, nil, harness.Candidate("broken", &harness.Fake{Plans: harness.Wrong}), harness.Candidate("flat", &harness.Fake{}), harness.Candidate("small", small))
		harness.NoErrors(t, j.Each(t, world, func(s *rank.Session) error {
			if s.World().Rank() != first {
				come := func() bool { return j.Agent.Status(false)[0].Ranks[first].Calls > 0 }
				if !await.Poll(await.For(await.Plenty), come) {
					return fmt.Errorf("rank %d does not come", first)
				}
			}
			return harness.SumIsRight(s.World(), 100)
		}))
		decisions = append(decisions, j.Decided()[0].Decision)
	}
	for _, d := range decisions[1:] {
		if diff := cmp.Diff(decisions[0], d, cmp.AllowUnexported(dispatch.Table{})); diff != "" {
			t.Errorf("decisions differ (-first +other):\n%s", diff)
		}
	}
}

func TestCascadeGoesOn(t *testing.T) {
	broken := errors.New("out of ideas")
	for name, f := range map[string]*harness.Fake{
		"wrong sum":       {Plans: harness.Wrong},
		"missing wait":    {Plans: harness.Hasty},
		"plan fails":      {Plans: func(int) (plan.Plan, error) { return nil, broken }},
		"no plan":         {Plans: func(int) (plan.Plan, error) { return nil, nil }},
		"impossible plan": {Plans: func(int) (plan.Plan, error) { return &plan.Schedule{TileBytes: 1}, nil }},
		"other kind":      {Plans: func(int) (plan.Plan, error) { return &plan.Worker{SlotBytes: 64, Slots: 1}, nil }},
		"huge plan": {Plans: func(world int) (plan.Plan, error) {
			p, err := harness.Flat(world)
			p.(*plan.Schedule).TileBytes = 1 << 29
			return p, err
		}},
		"accept fails": {Accepts: func() (backend.Verdict, error) { return backend.Verdict{}, broken }},
		"nonsense":     {Accepts: func() (backend.Verdict, error) { return backend.Verdict{Kind: backend.Accept}, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			f.Says.Priority = 1
			j := harness.StartAgent(t, 3, nil, harness.Candidate("broken", f), harness.Candidate("flat", &harness.Fake{}))
			harness.NoErrors(t, j.Each(t, 3, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 3000) }))
			d := j.Decided()[0].Decision
			if v := d.Answers[0].Verdict; d.Answers[0].Backend != "broken" || v.Kind != backend.Decline {
				t.Errorf("first answer is %s: %s, want broken: decline", d.Answers[0].Backend, v)
			}
			want := map[string]backend.Code{
				"wrong sum": backend.PlanRejected, "missing wait": backend.PlanRejected, "plan fails": backend.Other, "no plan": backend.PlanRejected,
				"impossible plan": backend.PlanRejected, "other kind": backend.PlanRejected, "huge plan": backend.PlanRejected,
				"accept fails": backend.Other, "nonsense": backend.Other,
			}[name]
			reason := d.Answers[0].Verdict.Reasons[0]
			if reason.Code != want {
				t.Errorf("code %s, want %s: %s", reason.Code, want, d.Answers[0].Verdict)
			}
			text := map[string]string{
				"wrong sum": "rank 0, step 4 (reduce out <- slot 0 of rank 0, slot 0 of rank 1, slot 0 of rank 0, final), tile 1: adds the contribution of rank 0 twice",
				"missing wait": "rank 1, step 3 (reduce out <- slot 0 of ranks 0..2, final), tile 1: reads slot 0 of rank 0, " +
					"which rank 0 may be writing in its step 0 (copy slot 0 of rank 0 <- in) for the same tile: nothing orders the two",
			}[name]
			if !strings.Contains(reason.Text, text) {
				t.Errorf("text %q, want %q in it", reason.Text, text)
			}
		})
	}
}

func TestNobodyServes(t *testing.T) {
	no := &harness.Fake{Accepts: func() (backend.Verdict, error) {
		return backend.Declined(backend.Because(backend.TooSmall, "a hair", "a rope")), nil
	}}
	cuda := &harness.Fake{Says: backend.Info{Requirements: backend.Requirements{Memories: []collective.Memory{collective.CUDA}}}}
	j := harness.StartAgent(t, 2, nil, harness.Candidate("no", no), harness.Candidate("gpu", cuda))
	harness.WantErrors(t, j.Each(t, 2, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 8) }),
		"no: decline; TOO_SMALL: a hair, needs a rope", "gpu: decline; MEMORY: host, needs cuda")
}

func TestSizeThatNobodyServes(t *testing.T) {
	small := &harness.Fake{Accepts: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 64}), nil }}
	j := harness.StartAgent(t, 2, nil, harness.Candidate("small", small))
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		if err := harness.SumIsRight(s.World(), 16); err != nil {
			return err
		}
		if err := harness.SumIsRight(s.World(), 17); err == nil || !strings.Contains(err.Error(), "no backend serves host float32 sum eager of 68 bytes") {
			return fmt.Errorf("a size that nobody serves: %v", err)
		}
		return harness.SumIsRight(s.World(), 3) // the group is none the worse for it
	}))
}

func TestRanksDisagree(t *testing.T) {
	for name, call := range map[string]func(g *rank.Group) error{
		"size": func(g *rank.Group) error { return sumOf(g, 10+g.Rank()/2) },
		"type": func(g *rank.Group) error {
			if g.Rank() == 1 {
				b := make([]int32, 10)
				return rank.AllReduce(g, b, b, collective.Sum)
			}
			return sumOf(g, 10)
		},
		"op": func(g *rank.Group) error {
			b := make([]float32, 10)
			return rank.AllReduce(g, b, b, map[bool]collective.Op{true: collective.Max}[g.Rank() == 2])
		},
		"refused": func(g *rank.Group) error {
			if g.Rank() == 1 {
				_ = rank.AllReduce(g, make([]float32, 1), nil, collective.Sum)
				return sumOf(g, 10) // a call behind
			}
			return sumOf(g, 10)
		},
	} {
		for _, decided := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, decided %t", name, decided), func(t *testing.T) {
				j := harness.StartAgent(t, 3, nil, harness.Candidate("flat", &harness.Fake{}))
				errs := j.Each(t, 3, func(s *rank.Session) error {
					g := s.World()
					if decided {
						b := make([]int32, 10)
						if err := errors.Join(sumOf(g, 10), rank.AllReduce(g, b, b, collective.Sum)); err != nil {
							return fmt.Errorf("too early: %w", err)
						}
						f := make([]float32, 10)
						if err := rank.AllReduce(g, f, f, collective.Max); err != nil {
							return fmt.Errorf("too early: %w", err)
						}
					}
					err := call(g)
					if later := sumOf(g, 10); later == nil {
						return errors.New("a call on a failed group went well")
					}
					return err
				})
				harness.WantErrors(t, errs, "group g1 has failed", "disagree")
			})
		}
	}
}

func sumOf(g *rank.Group, n int) error {
	b := make([]float32, n)
	return rank.AllReduce(g, b, b, collective.Sum)
}

func TestBadArguments(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		g, b := s.World(), make([]float32, 16)
		words := make([]uint32, 3)
		unaligned := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&words[0]), 1)), 8)
		for words, err := range map[string]error{
			"dst has 2 elements and src 3": rank.AllReduce(g, b[:2], b[4:7], collective.Sum),
			"no elements":                  rank.AllReduce(g, b[:0], b[:0], collective.Sum),
			"overlap in part":              rank.AllReduce(g, b[:4], b[2:6], collective.Sum),
			"unknown reduce op":            rank.AllReduce(g, b, b, collective.Op(9)),
			"not a whole number of":        rank.AllReduceBytes(g, make([]byte, 6), make([]byte, 6), collective.Float32, collective.Sum),
			"multiple of 4 bytes":          rank.AllReduceBytes(g, unaligned, make([]byte, 8), collective.Float32, collective.Sum),
			"unknown data type":            rank.AllReduceBytes(g, nil, nil, collective.DataType(99), collective.Sum),
		} {
			if err == nil || !strings.Contains(err.Error(), words) {
				return fmt.Errorf("error %v, want one with %q", err, words)
			}
		}
		if err := harness.SumIsRight(g, 5); err != nil { // every rank refused the same calls, so they are in step
			return err
		}
		if err := g.Close(); err != nil {
			return err
		}
		if err := sumOf(g, 1); !errors.Is(err, rank.ErrClosed) {
			return fmt.Errorf("use after Close: %v", err)
		}
		return nil
	}))
}

func TestConcurrentCallsOnOneGroup(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		g := s.World()
		if err := sumOf(g, 1); err != nil {
			return err
		}
		if g.Rank() == 1 {
			return errors.Join(g.Barrier(t.Context()), harness.SumIsRight(g, 4)) // comes late, so that rank 0's first call is still in progress
		}
		calls := make(chan error, 2)
		for range 2 {
			go func() { calls <- harness.SumIsRight(g, 4) }()
		}
		if err := <-calls; err == nil || !strings.Contains(err.Error(), "one at a time") { // the other cannot end before rank 1 comes
			return fmt.Errorf("second call: %v", err)
		}
		if err := g.Close(); err == nil || !strings.Contains(err.Error(), "in progress") {
			return fmt.Errorf("close during a call: %v", err)
		}
		return errors.Join(g.Barrier(t.Context()), <-calls)
	}))
}

func TestRankThatEndsEarly(t *testing.T) {
	j := harness.StartAgent(t, 3, nil, harness.Candidate("flat", &harness.Fake{}))
	errs := j.Each(t, 3, func(s *rank.Session) error {
		if err := sumOf(s.World(), 8); err != nil {
			return err
		}
		if s.World().Rank() == 1 {
			return nil
		}
		return sumOf(s.World(), 8)
	})
	if errs[1] != nil {
		t.Errorf("rank 1: %s", errs[1])
	}
	harness.WantErrors(t, []error{errs[0], errs[2]}, "rank 1 has left the group")
}

func TestRankThatNeverJoins(t *testing.T) {
	deadline := await.For(100 * time.Millisecond).Round(time.Millisecond) // the others must keep to it
	j := harness.StartAgent(t, 3, func(o *agent.Options) { o.JoinDeadline = deadline })
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() {
			_, errs[r] = rank.Join(t.Context(), rank.Options{Socket: j.Agent.Socket(), Rank: r, WorldSize: 3})
		})
	}
	wg.Wait()
	harness.WantErrors(t, errs, fmt.Sprintf("2 of 3 ranks asked to join: rank 2 did not within %s", deadline))
}

func TestRankThatNeverCalls(t *testing.T) {
	for _, decided := range []bool{true, false} {
		t.Run(fmt.Sprintf("decided %t", decided), func(t *testing.T) {
			deadline := await.For(200 * time.Millisecond).Round(time.Millisecond)
			j := harness.StartAgent(t, 3, func(o *agent.Options) { o.CallDeadline = deadline }, harness.Candidate("flat", &harness.Fake{}))
			done := make(chan struct{})
			var waiting sync.WaitGroup
			waiting.Add(2)
			go func() { waiting.Wait(); close(done) }()
			errs := j.Each(t, 3, func(s *rank.Session) error {
				if decided {
					if err := sumOf(s.World(), 8); err != nil {
						return err
					}
				}
				if s.World().Rank() == 2 {
					<-done
					return nil
				}
				defer waiting.Done()
				return sumOf(s.World(), 8)
			})
			harness.WantErrors(t, errs[:2], "rank 2", deadline.String())
		})
	}
}

func TestJoinRefusals(t *testing.T) {
	j := harness.StartAgent(t, 2, nil)
	for words, o := range map[string]rank.Options{
		"serves 2 ranks, not 3":     {Rank: 0, WorldSize: 3},
		"rank 2 of 2 does not":      {Rank: 2, WorldSize: 2},
		"no agent answers":          {Rank: 0, WorldSize: 2, Socket: "/nowhere/agent.sock"},
		rank.EnvRank + `="" is not`: {},
	} {
		if o.Socket == "" {
			o.Socket = j.Agent.Socket()
		}
		if _, err := rank.Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("join with %+v: %v, want an error with %q", o, err, words)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(50*time.Millisecond))
	defer cancel()
	if _, err := rank.Join(ctx, rank.Options{Socket: j.Agent.Socket(), Rank: 0, WorldSize: 2}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a join that nobody completes: %v", err)
	}
}

func TestJobsOneAfterAnother(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	for range 3 {
		harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 9) }))
	}
}

func TestAgentThatEnds(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	var decided sync.WaitGroup
	decided.Add(2)
	errs := j.Each(t, 2, func(s *rank.Session) error {
		g := s.World()
		err := harness.SumIsRight(g, 9)
		decided.Done()
		if err != nil {
			return err
		}
		decided.Wait() // not through the agent, which may end before it has answered everybody
		if err := j.Agent.Close(); err != nil {
			return err
		}
		if err := harness.SumIsRight(g, 9); err != nil { // what is decided needs no agent
			return fmt.Errorf("a decided call without the agent: %w", err)
		}
		b := make([]int8, 4)
		return rank.AllReduce(g, b, b, collective.Max)
	})
	harness.WantErrors(t, errs, "decide host int8 max eager", "the agent")
}
