// Command firstcalls makes many new groups of all ranks, several at once, each with first calls of several classes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

func main() {
	rounds := flag.Int("rounds", 10, "`rounds`, of one new group at each of -at-once")
	atOnce := flag.Int("at-once", 1, "`groups` that are new at the same time")
	burners := flag.Int("burners", 0, "`threads` of rank 0 that burn processor time beside")
	flag.Parse()
	if err := run(*rounds, *atOnce, *burners); err != nil {
		fmt.Fprintf(os.Stderr, "firstcalls: %s\n", err)
		os.Exit(1)
	}
}

func run(rounds, atOnce, burners int) error {
	ctx := context.Background()
	s, err := rank.Join(ctx, rank.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if s.World().Rank() == 0 {
		defer burn(burners)()
	}
	for round := range rounds {
		groups := make([]*rank.Group, atOnce)
		for i := range groups { // one after the other: who asks for the same ranks twice at once means one group
			if groups[i], err = s.NewGroup(ctx, s.World().Ranks()); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		var wg sync.WaitGroup
		errs := make([]error, atOnce)
		for i, g := range groups {
			wg.Go(func() { errs[i] = errors.Join(first(g), g.Close()) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// first makes the first calls of a group: one of a few bytes, as a program's first often is, then others at once.
func first(g *rank.Group) error {
	for _, n := range []int{27, 27, 1, 6, 5000} {
		if err := sum[float32](g, n); err != nil {
			return err
		}
	}
	if err := sum[int64](g, 3); err != nil {
		return err
	}
	return sum[float64](g, 27)
}

func sum[T float32 | float64 | int64](g *rank.Group, n int) error {
	dst, src := make([]T, n), make([]T, n)
	for i := range src {
		src[i] = T(g.Rank() + i%7)
	}
	if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
		return err
	}
	for i, got := range dst {
		if want := T(g.Size()*(g.Size()-1)/2 + g.Size()*(i%7)); got != want {
			return fmt.Errorf("%d elements of %T: element %d is %v, want %v", n, got, i, got, want)
		}
	}
	return nil
}

// burn takes processor time from all until the end.
func burn(threads int) (end func()) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads)
	var over atomic.Bool
	for range threads {
		go func() {
			runtime.LockOSThread()
			for !over.Load() {
				for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
				}
			}
		}()
	}
	return func() { over.Store(true) }
}
