package decide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

var sumFloat32 = collective.Class{DataType: collective.Float32, Op: collective.Sum}

// TestJoinsWhileGroupsForm has processes ask to join as a rank that is taken while groups are formed and left.
func TestJoinsWhileGroupsForm(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	stop := make(chan struct{})
	var intruders sync.WaitGroup
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		for range 3 * s.World().Rank() {
			intruders.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(t.Context(), await.Lapse(20*time.Millisecond))
					if _, err := rank.Join(ctx, rank.Options{Socket: j.Agent.Socket(), Rank: 0, WorldSize: 2}); err == nil {
						t.Error("joined as a rank that is taken")
					}
					cancel()
				}
			})
		}
		for i := range 300 {
			g, err := s.NewGroup(t.Context(), []int{0, 1})
			if err != nil {
				return fmt.Errorf("group %d: %w", i, err)
			}
			if err := g.Close(); err != nil {
				return err
			}
		}
		if s.World().Rank() == 1 {
			close(stop)
			intruders.Wait()
		}
		return nil
	}))
}

// slowly is a backend that thinks for a while.
func slowly(d time.Duration) *harness.Fake {
	return &harness.Fake{Accepts: func() (backend.Verdict, error) {
		time.Sleep(d)
		return backend.Accepted(backend.AllBytes()...), nil
	}}
}

// TestContextThatEnds holds that a rank which gives up leaves the others neither waiting nor out of step.
func TestContextThatEnds(t *testing.T) {
	short := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), await.Lapse(20*time.Millisecond))
	}
	t.Run("warm before the others", func(t *testing.T) {
		j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
		harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
			if s.World().Rank() == 0 {
				ctx, cancel := short()
				defer cancel()
				if err := s.World().Warm(ctx, sumFloat32); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("warm alone: %v", err)
				}
			}
			return errors.Join(s.World().Barrier(t.Context()), harness.SumIsRight(s.World(), 5))
		}))
	})
	t.Run("warm while it is decided", func(t *testing.T) {
		givenUp, giveUp := context.WithCancel(t.Context())
		slow := slowly(200 * time.Millisecond)
		slow.Accepts = func(then func() (backend.Verdict, error)) func() (backend.Verdict, error) {
			return func() (backend.Verdict, error) { giveUp(); return then() }
		}(slow.Accepts)
		j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", slow))
		harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
			ctx := t.Context()
			if s.World().Rank() == 0 {
				ctx = givenUp
			}
			return errors.Join(s.World().Warm(ctx, sumFloat32), harness.SumIsRight(s.World(), 5))
		}))
	})
	t.Run("new group and exchange", func(t *testing.T) {
		j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
		gaveUp := make(chan struct{})
		harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
			if s.World().Rank() == 0 {
				ctx, cancel := short()
				_, err := s.NewGroup(ctx, []int{0, 1})
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("new group alone: %v", err)
				}
				ctx, cancel = short()
				err = s.World().Barrier(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("barrier alone: %v", err)
				}
				close(gaveUp)
			}
			<-gaveUp
			if err := s.World().Barrier(t.Context()); err != nil {
				return err
			}
			g, err := s.NewGroup(t.Context(), []int{0, 1})
			if err != nil {
				return err
			}
			return harness.SumIsRight(g, 5)
		}))
	})
}

// TestRefusedCallThenAnother has the call after the refused one run by another backend, whose signals nobody awaits.
func TestRefusedCallThenAnother(t *testing.T) {
	small := &harness.Fake{Accepts: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 1024}), nil }}
	small.Says.Priority = 2
	j := harness.StartAgent(t, 2, nil, harness.Candidate("small", small), harness.Candidate("large", &harness.Fake{}))
	harness.WantErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		g := s.World()
		if err := errors.Join(harness.SumIsRight(g, 5), harness.SumIsRight(g, 5000)); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if g.Rank() == 1 {
			_ = rank.AllReduce(g, make([]float32, 1), nil, collective.Sum)
			return harness.SumIsRight(g, 5000)
		}
		return harness.SumIsRight(g, 5)
	}), "ranks disagree about all-reduce", "arguments that it refused")
}

// TestLateRankIsNamed has ranks wait for their neighbour in a chain, who is not the one that is late.
func TestLateRankIsNamed(t *testing.T) {
	chain := func(world int) (plan.Plan, error) {
		last := world - 1
		shape := schedule.Shape{TileBytes: 4096, Buffers: 1, Slots: 1, Signals: 1, Chunks: 1}
		return schedule.Build(world, shape, func(r *schedule.Rank) {
			mine := schedule.Slot(r.Rank, 0)
			switch r.Rank {
			case 0:
				r.Copy(mine, schedule.In(), plan.AllChunks)
			case last:
				r.Wait(r.Rank-1, 0)
				r.ReduceFinal(mine, []plan.Place{schedule.Slot(r.Rank-1, 0), schedule.In()}, plan.AllChunks)
			default:
				r.Wait(r.Rank-1, 0)
				r.Reduce(mine, []plan.Place{schedule.Slot(r.Rank-1, 0), schedule.In()}, plan.AllChunks)
			}
			r.Signal(0)
			r.Wait(last, 0)
			r.Copy(schedule.Out(), schedule.Slot(last, 0), plan.AllChunks)
		}), nil
	}
	deadline := await.For(300 * time.Millisecond).Round(time.Millisecond)
	j := harness.StartAgent(t, 4, func(o *agent.Options) { o.CallDeadline = deadline }, harness.Candidate("chain", &harness.Fake{Plans: chain}))
	var others sync.WaitGroup
	others.Add(3)
	errs := j.Each(t, 4, func(s *rank.Session) error {
		if err := harness.SumIsRight(s.World(), 8); err != nil {
			return err
		}
		if s.World().Rank() == 1 {
			others.Wait()
			return nil
		}
		defer others.Done()
		return sumOf(s.World(), 8)
	})
	harness.WantErrors(t, []error{errs[0], errs[2], errs[3]}, fmt.Sprintf("rank 1 did not begin all-reduce 2 within %s: last, rank 1 began all-reduce 1", deadline))
}

// TestLateRankIsNamedWithoutAgent: the first to give up cannot tell the others why, who find it out themselves.
func TestLateRankIsNamedWithoutAgent(t *testing.T) {
	const world = 4
	j := harness.StartAgent(t, world, func(o *agent.Options) { o.CallDeadline = await.For(400 * time.Millisecond) }, harness.Candidate("flat", &harness.Fake{}))
	var decided, others sync.WaitGroup
	decided.Add(world)
	others.Add(world - 1)
	errs := j.Each(t, world, func(s *rank.Session) error {
		err := harness.SumIsRight(s.World(), 8)
		decided.Done()
		if err != nil {
			return err
		}
		decided.Wait()
		switch s.World().Rank() {
		case 0:
			if err := j.Agent.Close(); err != nil {
				return err
			}
		case 1:
			others.Wait()
			return nil
		}
		defer others.Done()
		return sumOf(s.World(), 8)
	})
	harness.WantErrors(t, []error{errs[0], errs[2], errs[3]}, "rank 1 did not begin all-reduce 2", "last, rank 1 began all-reduce 1 of")
}

func TestClosedGroupsLeaveNoMemory(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(maps), "memfd:weir-")
	}
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		for range 20 {
			g, err := s.NewGroup(t.Context(), []int{0, 1})
			if err != nil {
				return err
			}
			if err := errors.Join(harness.SumIsRight(g, 5), g.Close()); err != nil {
				return err
			}
		}
		return nil
	}))
	await.Until(t, "no mapping of shared memory is left", func() bool { return mapped() == 0 })
}

// TestDroppedPlansLeaveNoMemory has a backend's first plan made for other ranges than the one that is committed.
func TestDroppedPlansLeaveNoMemory(t *testing.T) {
	var asked atomic.Int64
	changing := &harness.Fake{
		Accepts: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 100}), nil },
		Plans: func(world int) (plan.Plan, error) {
			p, err := harness.Flat(world)
			p.(*plan.Schedule).TileBytes = 4096 * asked.Add(1)
			return p, err
		},
	}
	changing.Says.Priority = 3
	broken := &harness.Fake{Plans: harness.Wrong}
	broken.Says.Priority = 2
	j := harness.StartAgent(t, 2, nil, harness.Candidate("changing", changing), harness.Candidate("broken", broken), harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		if err := errors.Join(harness.SumIsRight(s.World(), 5), s.World().Barrier(t.Context())); err != nil {
			return err
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			return err
		}
		if n := strings.Count(string(maps), "memfd:weir-changing"); n != 2 { // one for each rank
			return fmt.Errorf("%d mappings of a plan's memory in two ranks", n)
		}
		return s.World().Barrier(t.Context())
	}))
}

// releasing counts how often a backend is told that a group has ended.
type releasing struct {
	*harness.Fake
	released *atomic.Int32
}

func (r releasing) Release(context.Context, string) error {
	r.released.Add(1)
	return nil
}

func TestEveryBackendIsReleased(t *testing.T) {
	var released atomic.Int32
	all := []dispatch.Candidate{harness.Candidate("broken", &harness.Fake{Plans: harness.Wrong}), harness.Candidate("flat", &harness.Fake{})}
	all[0].Info.Priority = 1
	for i := range all {
		all[i].Backend = releasing{all[i].Backend.(*harness.Fake), &released}
	}
	j := harness.StartAgent(t, 2, nil, all...)
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 5) }))
	if err := j.Agent.Close(); err != nil {
		t.Fatal(err)
	}
	if n := released.Load(); n != 2 {
		t.Errorf("%d releases of two backends that were asked about one group", n)
	}
}

func TestUseAfterClose(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		g, err := s.NewGroup(t.Context(), []int{0, 1})
		if err != nil {
			return err
		}
		if err := g.Close(); err != nil {
			return err
		}
		if err := g.Barrier(t.Context()); !errors.Is(err, rank.ErrClosed) {
			return fmt.Errorf("barrier of a closed group: %v", err)
		}
		if err := s.World().Barrier(t.Context()); err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		if _, err := s.NewGroup(t.Context(), []int{0, 1}); !errors.Is(err, rank.ErrClosed) {
			return fmt.Errorf("new group of a closed session: %v", err)
		}
		return nil
	}))
}

func TestGroupInTwoOrders(t *testing.T) {
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	harness.WantErrors(t, j.Each(t, 2, func(s *rank.Session) error {
		_, err := s.NewGroup(t.Context(), [][]int{{0, 1}, {1, 0}}[s.World().Rank()])
		return err
	}), "[0 1]", "[1 0]", "must be the same")
}

// TestSlowSelfTest has a right plan that takes too long: that is a decline, and no group fails.
func TestSlowSelfTest(t *testing.T) {
	crawling := &harness.Fake{Plans: func(world int) (plan.Plan, error) {
		p, err := harness.Flat(world)
		p.(*plan.Schedule).TileBytes = 64
		return p, err
	}}
	crawling.Says.Priority = 1
	j := harness.StartAgent(t, 6, func(o *agent.Options) { o.SelfTestDeadline = await.Lapse(60 * time.Millisecond) }, harness.Candidate("crawling", crawling), harness.Candidate("flat", &harness.Fake{Plans: func(world int) (plan.Plan, error) {
		p, err := harness.Flat(world)
		p.(*plan.Schedule).TileBytes = 1 << 20
		return p, err
	}}))
	_ = j.Each(t, 6, func(s *rank.Session) error { return harness.SumIsRight(s.World(), 5) }) // even flat may be too slow here
	if v := j.Decided()[0].Decision.Answers[0].Verdict; v.Kind != backend.Decline || v.Reasons[0].Code != backend.SelfTestFailed {
		t.Errorf("a plan that needs longer than its deadline: %s", v)
	}
}
