package exec

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// TestMain gives every goroutine that plays a rank a thread of its own, as ranks have in their own processes.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(20)
	os.Exit(m.Run())
}

// flat: everyone reads everything.
func flat(world int, tile int64) *plan.Schedule {
	shape := schedule.Shape{TileBytes: tile, Buffers: 2, Slots: 1, Signals: 1, Chunks: 1}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		if world == 1 {
			r.CopyFinal(schedule.Out(), schedule.In(), plan.AllChunks)
			return
		}
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Out(), r.Slots(0), plan.AllChunks)
	})
}

// scattered: every rank reduces one chunk, in a slot of its own, and copies the others; three buffers.
func scattered(world int, tile int64) *plan.Schedule {
	shape := schedule.Shape{TileBytes: tile, Buffers: 3, Slots: 2, Signals: 2, Chunks: world}
	return schedule.Build(world, shape, func(r *schedule.Rank) {
		if world == 1 {
			r.CopyFinal(schedule.Out(), schedule.In(), plan.AllChunks)
			return
		}
		r.Copy(schedule.Slot(r.Rank, 0), schedule.In(), plan.AllChunks)
		r.Signal(0)
		r.WaitAll(0)
		r.ReduceFinal(schedule.Slot(r.Rank, 1), r.Slots(0), r.Rank)
		r.Signal(1)
		r.Copy(schedule.Out(), schedule.Slot(r.Rank, 1), r.Rank)
		for _, p := range r.Peers() {
			r.Wait(p, 1)
			r.Copy(schedule.Out(), schedule.Slot(p, 1), p)
		}
	})
}

// team is the ranks of a group, all in this process.
type team struct {
	ranks []*Schedule
	abort uint32
	tries *Window // of a direct schedule
}

// trial is the memory to try the schedule with; nil if any will do.
func (g *team) trial(rank int) []byte {
	if g.tries == nil {
		return nil
	}
	return g.tries.Part(rank)
}

func newTeam(t testing.TB, s *plan.Schedule, w Watch) *team {
	t.Helper()
	g := &team{}
	w.Abort = &g.abort
	w.Yield = len(s.Programs) >= runtime.NumCPU() // other tests run at the same time
	shared := aligned(s.MemoryBytes())
	if s.Direct() {
		w := Trial(s, shared)
		g.tries = &w
	}
	for rank := range s.Programs {
		x, err := NewSchedule(s, rank, shared, w)
		if err != nil {
			t.Fatal(err)
		}
		if g.tries != nil {
			x.SetWindows([]Window{*g.tries})
		}
		g.ranks = append(g.ranks, x)
	}
	return g
}

// each runs do on every rank at once and returns the errors by rank.
func (g *team) each(do func(rank int, x *Schedule) error) []error {
	errs := make([]error, len(g.ranks))
	var wg sync.WaitGroup
	for rank, x := range g.ranks {
		wg.Go(func() { errs[rank] = do(rank, x) })
	}
	wg.Wait()
	return errs
}

// must is each for what must succeed. The first failure aborts the others.
func (g *team) must(t testing.TB, do func(rank int, x *Schedule) error) {
	t.Helper()
	errs := g.each(func(rank int, x *Schedule) error {
		err := do(rank, x)
		if err != nil {
			atomic.StoreUint32(&g.abort, 1)
		}
		return err
	})
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func class(dt collective.DataType, op collective.Op) collective.Class {
	return collective.Class{Memory: collective.Host, DataType: dt, Op: op}
}

func callOf(c collective.Class, dst, src []byte) Call {
	return Call{Class: c, Dst: unsafe.Pointer(unsafe.SliceData(dst)), Src: unsafe.Pointer(unsafe.SliceData(src)), Bytes: int64(len(src))}
}

// dawdle lets the other ranks run ahead, at times.
func dawdle(rng *rand.Rand) {
	switch rng.IntN(8) {
	case 0:
		time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
	case 1:
		runtime.Gosched()
	}
}
