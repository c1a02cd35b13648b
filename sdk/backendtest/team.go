package backendtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
)

// team is the ranks of a group as goroutines of this process.
type team struct {
	ranks []*exec.Schedule
	abort *uint32
}

func newTeam(p *plan.Schedule, deadline time.Duration) (*team, error) {
	world := len(p.Programs)
	if threads := world + 2; runtime.GOMAXPROCS(0) < threads {
		runtime.GOMAXPROCS(threads) // a rank that waits keeps its thread, as it does in a process of its own
	}
	words := make([]uint64, p.SharedBytes()/8+1)
	shared := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	g := &team{abort: new(uint32)}
	for rank := range world {
		x, err := exec.NewSchedule(p, rank, shared, exec.Watch{
			Abort: g.abort, Deadline: deadline, Yield: world >= runtime.NumCPU(),
		})
		if err != nil {
			return nil, err
		}
		g.ranks = append(g.ranks, x)
	}
	return g, nil
}

// each runs do on every rank at once. The first error stops the other ranks and is returned.
func (g *team) each(do func(rank int, run func(exec.Call) error) error) error {
	errs := make([]error, len(g.ranks))
	var wg sync.WaitGroup
	for rank, x := range g.ranks {
		wg.Go(func() {
			err := do(rank, x.Run)
			if err != nil {
				atomic.StoreUint32(g.abort, 1)
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, exec.ErrAborted) {
			return err
		}
	}
	return errors.Join(errs...)
}

// unevenly makes a rank late for some of its calls, so that others run ahead.
func unevenly(rank int, run func(exec.Call) error) func(exec.Call) error {
	rng := rand.New(rand.NewPCG(uint64(rank), 0))
	return func(c exec.Call) error {
		switch rng.IntN(16) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(60)) * time.Microsecond)
		case 1, 2:
			runtime.Gosched()
		}
		return run(c)
	}
}
