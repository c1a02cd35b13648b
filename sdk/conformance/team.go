package conformance

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
	ranks []func(exec.Call) error
	abort *uint32
	trial *exec.Window // of a direct schedule
	close func()       // gives up what the plan holds
}

// threads sees to it that each rank that waits has a thread, which it keeps, as it does in a process of its own.
func threads(world int) {
	if n := world + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
}

func scheduleTeam(p *plan.Schedule, deadline time.Duration) (*team, error) {
	world := len(p.Programs)
	threads(world)
	words := make([]uint64, p.MemoryBytes()/8+1)
	shared := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	g := &team{abort: new(uint32), close: func() {}}
	if p.Direct() {
		w := exec.Trial(p, shared)
		g.trial = &w
	}
	for rank := range world {
		x, err := exec.NewSchedule(p, rank, shared, exec.Watch{
			Abort: g.abort, Deadline: deadline, Yield: world >= runtime.NumCPU(),
		})
		if err != nil {
			return nil, err
		}
		if g.trial != nil {
			x.SetWindows([]exec.Window{*g.trial})
		}
		g.ranks = append(g.ranks, x.Run)
	}
	return g, nil
}

// memory is where a rank's buffers must lie; nil if anywhere.
func (g *team) memory(rank int) []byte {
	if g.trial == nil {
		return nil
	}
	return g.trial.Part(rank)
}

// buffers are two buffers of a rank, of at most plan.TrialBytes for a direct schedule.
func (g *team) buffers(rank int, bytes int64) (src, dst []byte) {
	if m := g.memory(rank); m != nil {
		return m[:bytes], m[plan.TrialBytes:][:bytes]
	}
	words := make([]uint64, 2*(bytes/8+1))
	m := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	return m[:bytes], m[len(m)/2:][:bytes]
}

// each runs do on every rank at once. The first error stops the other ranks and is returned.
func (g *team) each(do func(rank int, run func(exec.Call) error) error) error {
	errs := make([]error, len(g.ranks))
	var wg sync.WaitGroup
	for rank, run := range g.ranks {
		wg.Go(func() {
			err := do(rank, run)
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
