// Command calls makes many decided all-reduces on one thread and prints what they cost.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
)

func main() {
	calls := flag.Int("calls", 1000, "number of `calls` after the first")
	elements := flag.Int("elements", 2, "float32 `elements` of each")
	gate := flag.String("gate", "", "print a line after the first call and make the others once this `file` exists")
	bind := flag.Bool("bind", false, "run on one core, the rank's number modulo theirs")
	flag.Parse()
	if err := run(*calls, *elements, *gate, *bind); err != nil {
		fmt.Fprintf(os.Stderr, "calls: %s\n", err)
		os.Exit(1)
	}
}

func run(calls, elements int, gate string, bind bool) error {
	runtime.LockOSThread() // so that the calls' system calls, if any, are this thread's
	ctx := context.Background()
	s, err := rank.Join(ctx, rank.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	if bind {
		var core unix.CPUSet
		core.Set(s.World().Rank() % runtime.NumCPU())
		if err := unix.SchedSetaffinity(0, &core); err != nil {
			return err
		}
	}
	g, dst, src := s.World(), make([]float32, elements), make([]float32, elements)
	for i := range src {
		src[i] = 1
	}
	if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
		return err
	}
	if err := waitFor(gate, g.Rank()); err != nil {
		return err
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	runtime.GC() // none falls into the loop then, for nothing is allocated
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range calls {
		if err := rank.AllReduce(g, dst, src, collective.Sum); err != nil {
			return err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if dst[0] != float32(g.Size()) {
		return fmt.Errorf("sum %v, want %d", dst[0], g.Size())
	}
	fmt.Printf("rank %d: thread %d: %d calls, %.3f µs each, %d allocations\n", g.Rank(), unix.Gettid(), calls,
		float64(took.Nanoseconds())/1e3/float64(calls), after.Mallocs-before.Mallocs)
	return nil
}

// waitFor says that the first call has been made and waits for a file, a minute or so. No name is no wait.
func waitFor(file string, rank int) error {
	if file == "" {
		return nil
	}
	if rank == 0 {
		fmt.Println("decided")
	}
	if !await.Poll(await.For(time.Minute), func() bool { _, err := os.Stat(file); return err == nil }) {
		return fmt.Errorf("%s did not appear in time", file)
	}
	return nil
}
