package tests

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
)

var sumFloat32 = collective.Class{DataType: collective.Float32, Op: collective.Sum}

// TestJoinsWhileGroupsForm has processes ask to join as a rank that is taken while groups are formed and left.
func TestJoinsWhileGroupsForm(t *testing.T) {
	j := startAgent(t, 2, nil, candidate("flat", &fake{}))
	stop := make(chan struct{})
	var intruders sync.WaitGroup
	noErrors(t, j.each(t, 2, func(s *rank.Session) error {
		for range 3 * s.World().Rank() {
			intruders.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					if _, err := rank.Join(ctx, rank.Options{Socket: j.agent.Socket(), Rank: 0, WorldSize: 2}); err == nil {
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
func slowly(d time.Duration) *fake {
	return &fake{accept: func() (backend.Verdict, error) {
		time.Sleep(d)
		return backend.Accepted(backend.AllBytes()...), nil
	}}
}

// TestContextThatEnds holds that a rank which gives up leaves the others neither waiting nor out of step.
func TestContextThatEnds(t *testing.T) {
	short := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), 20*time.Millisecond)
	}
	t.Run("warm before the others", func(t *testing.T) {
		j := startAgent(t, 2, nil, candidate("flat", &fake{}))
		noErrors(t, j.each(t, 2, func(s *rank.Session) error {
			if s.World().Rank() == 0 {
				ctx, cancel := short()
				defer cancel()
				if err := s.World().Warm(ctx, sumFloat32); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("warm alone: %v", err)
				}
			}
			return errors.Join(s.World().Barrier(t.Context()), sumIsRight(s.World(), 5))
		}))
	})
	t.Run("warm while it is decided", func(t *testing.T) {
		j := startAgent(t, 2, nil, candidate("flat", slowly(200*time.Millisecond)))
		noErrors(t, j.each(t, 2, func(s *rank.Session) error {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if s.World().Rank() == 0 {
				ctx, cancel = short()
			}
			defer cancel()
			return errors.Join(s.World().Warm(ctx, sumFloat32), sumIsRight(s.World(), 5))
		}))
	})
	t.Run("new group and exchange", func(t *testing.T) {
		j := startAgent(t, 2, nil, candidate("flat", &fake{}))
		gaveUp := make(chan struct{})
		noErrors(t, j.each(t, 2, func(s *rank.Session) error {
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
			return sumIsRight(g, 5)
		}))
	})
}

// TestRefusedCallThenAnother has the call after the refused one run by another backend, whose signals nobody awaits.
func TestRefusedCallThenAnother(t *testing.T) {
	small := &fake{accept: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 1024}), nil }}
	small.info.Priority = 2
	j := startAgent(t, 2, nil, candidate("small", small), candidate("large", &fake{}))
	wantErrors(t, j.each(t, 2, func(s *rank.Session) error {
		g := s.World()
		if err := errors.Join(sumIsRight(g, 5), sumIsRight(g, 5000)); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
		if g.Rank() == 1 {
			_ = rank.AllReduce(g, make([]float32, 1), nil, collective.Sum)
			return sumIsRight(g, 5000)
		}
		return sumIsRight(g, 5)
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
	j := startAgent(t, 4, func(o *agent.Options) { o.CallDeadline = 300 * time.Millisecond }, candidate("chain", &fake{plan: chain}))
	var others sync.WaitGroup
	others.Add(3)
	errs := j.each(t, 4, func(s *rank.Session) error {
		if err := sumIsRight(s.World(), 8); err != nil {
			return err
		}
		if s.World().Rank() == 1 {
			others.Wait()
			return nil
		}
		defer others.Done()
		return sumOf(s.World(), 8)
	})
	wantErrors(t, []error{errs[0], errs[2], errs[3]}, "rank 1 did not begin all-reduce 2 within 300ms: last, rank 1 began all-reduce 1")
}

// TestLateRankIsNamedWithoutAgent: the first to give up cannot tell the others why, who find it out themselves.
func TestLateRankIsNamedWithoutAgent(t *testing.T) {
	const world = 4
	j := startAgent(t, world, func(o *agent.Options) { o.CallDeadline = 400 * time.Millisecond }, candidate("flat", &fake{}))
	var decided, others sync.WaitGroup
	decided.Add(world)
	others.Add(world - 1)
	errs := j.each(t, world, func(s *rank.Session) error {
		err := sumIsRight(s.World(), 8)
		decided.Done()
		if err != nil {
			return err
		}
		decided.Wait()
		switch s.World().Rank() {
		case 0:
			if err := j.agent.Close(); err != nil {
				return err
			}
		case 1:
			others.Wait()
			return nil
		case 2:
			time.Sleep(150 * time.Millisecond) // so that another rank's patience ends first
		}
		defer others.Done()
		return sumOf(s.World(), 8)
	})
	wantErrors(t, []error{errs[0], errs[2], errs[3]}, "rank 1 did not begin all-reduce 2", "last, rank 1 began all-reduce 1 of")
}

func TestClosedGroupsLeaveNoMemory(t *testing.T) {
	j := startAgent(t, 2, nil, candidate("flat", &fake{}))
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(maps), "memfd:weir-")
	}
	noErrors(t, j.each(t, 2, func(s *rank.Session) error {
		for range 20 {
			g, err := s.NewGroup(t.Context(), []int{0, 1})
			if err != nil {
				return err
			}
			if err := errors.Join(sumIsRight(g, 5), g.Close()); err != nil {
				return err
			}
		}
		return nil
	}))
	for end := time.Now().Add(5 * time.Second); mapped() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d mappings of shared memory are left", mapped())
		}
	}
}

// TestDroppedPlansLeaveNoMemory has a backend's first plan made for other ranges than the one that is committed.
func TestDroppedPlansLeaveNoMemory(t *testing.T) {
	var asked atomic.Int64
	changing := &fake{
		accept: func() (backend.Verdict, error) { return backend.Accepted(backend.Range{Min: 1, Max: 100}), nil },
		plan: func(world int) (plan.Plan, error) {
			p, err := flat(world)
			p.(*plan.Schedule).TileBytes = 4096 * asked.Add(1)
			return p, err
		},
	}
	changing.info.Priority = 3
	broken := &fake{plan: wrong}
	broken.info.Priority = 2
	j := startAgent(t, 2, nil, candidate("changing", changing), candidate("broken", broken), candidate("flat", &fake{}))
	noErrors(t, j.each(t, 2, func(s *rank.Session) error {
		if err := errors.Join(sumIsRight(s.World(), 5), s.World().Barrier(t.Context())); err != nil {
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
	*fake
	released *atomic.Int32
}

func (r releasing) Release(context.Context, string) error {
	r.released.Add(1)
	return nil
}

func TestEveryBackendIsReleased(t *testing.T) {
	var released atomic.Int32
	all := []dispatch.Candidate{candidate("broken", &fake{plan: wrong}), candidate("flat", &fake{})}
	all[0].Info.Priority = 1
	for i := range all {
		all[i].Backend = releasing{all[i].Backend.(*fake), &released}
	}
	j := startAgent(t, 2, nil, all...)
	noErrors(t, j.each(t, 2, func(s *rank.Session) error { return sumIsRight(s.World(), 5) }))
	if err := j.agent.Close(); err != nil {
		t.Fatal(err)
	}
	if n := released.Load(); n != 2 {
		t.Errorf("%d releases of two backends that were asked about one group", n)
	}
}

func TestUseAfterClose(t *testing.T) {
	j := startAgent(t, 2, nil, candidate("flat", &fake{}))
	noErrors(t, j.each(t, 2, func(s *rank.Session) error {
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
	j := startAgent(t, 2, nil, candidate("flat", &fake{}))
	wantErrors(t, j.each(t, 2, func(s *rank.Session) error {
		_, err := s.NewGroup(t.Context(), [][]int{{0, 1}, {1, 0}}[s.World().Rank()])
		return err
	}), "[0 1]", "[1 0]", "must be the same")
}

// TestSlowSelfTest has a right plan that takes too long: that is a decline, and no group fails.
func TestSlowSelfTest(t *testing.T) {
	crawling := &fake{plan: func(world int) (plan.Plan, error) {
		p, err := flat(world)
		p.(*plan.Schedule).TileBytes = 64
		return p, err
	}}
	crawling.info.Priority = 1
	j := startAgent(t, 6, func(o *agent.Options) { o.SelfTestDeadline = 60 * time.Millisecond }, candidate("crawling", crawling), candidate("flat", &fake{plan: func(world int) (plan.Plan, error) {
		p, err := flat(world)
		p.(*plan.Schedule).TileBytes = 1 << 20
		return p, err
	}}))
	_ = j.each(t, 6, func(s *rank.Session) error { return sumIsRight(s.World(), 5) }) // even flat may be too slow here
	if v := j.all()[0].Decision.Answers[0].Verdict; v.Kind != backend.Decline || v.Reasons[0].Code != backend.SelfTestFailed {
		t.Errorf("a plan that needs longer than its deadline: %s", v)
	}
}
