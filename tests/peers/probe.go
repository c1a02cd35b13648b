package main

import (
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/bench"
)

// word is an atomic word with two cache lines of its own.
type word struct {
	_ [128]byte
	v atomic.Uint32
	_ [124]byte
}

// handOver is how long, in ns, a word that one core writes takes to be seen by the next that spins on it: the mean over
// neighbours among the first n cores, each the median of short runs. It tells how near the hypervisor has put them.
// It is 0 with fewer than two cores.
func handOver(n int) float64 {
	if n < 2 {
		return 0
	}
	sum := 0.0
	for i := range n {
		sum += pingPong(i, (i+1)%n, 12, 2000, func() {})
	}
	return sum / float64(n)
}

// switchCore is how long, in ns, it takes to give a core to another thread on it and find a word written.
func switchCore() float64 {
	return pingPong(0, 0, 6, 500, func() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) })
}

// pingPong is the median over runs of the one-way time in ns between two threads, each on its core. idle is called
// while one waits. Its waits are bounded: past a second it gives up and says that it took for ever.
func pingPong(a, b, runs, turns int, idle func()) float64 {
	var ping, pong word
	var stop atomic.Bool
	timer := time.AfterFunc(time.Second, func() { stop.Store(true) })
	defer timer.Stop()
	wait := func(w *word, v uint32) {
		for w.v.Load() != v && !stop.Load() {
			idle()
		}
	}
	var took []float64
	var both sync.WaitGroup
	both.Go(func() {
		defer onCore(b)()
		for i := uint32(1); i <= uint32(runs*turns) && !stop.Load(); i++ {
			wait(&ping, i)
			pong.v.Store(i)
		}
	})
	both.Go(func() {
		defer onCore(a)()
		i := uint32(0)
		for range runs {
			begin := time.Now()
			for range turns {
				i++
				ping.v.Store(i)
				wait(&pong, i)
			}
			took = append(took, float64(time.Since(begin).Nanoseconds())/float64(2*turns))
		}
	})
	both.Wait()
	if stop.Load() {
		return math.Inf(1)
	}
	return bench.Median(took)
}

// coreAt is the kernel's number of the i-th core that this program may use, counted round and round.
func coreAt(i int) int {
	cores := mayUse()
	return cores[i%len(cores)]
}

// mayUse are the cores that this program was started with. A thread that is bound to one sees only that, so it is
// looked up once, before any is.
var mayUse = sync.OnceValue(func() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil || set.Count() == 0 {
		return []int{0}
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
})

// onCore keeps the goroutine on a thread and the thread on the i-th core, until the function that it returns is called.
func onCore(i int) func() {
	runtime.LockOSThread()
	var old, only unix.CPUSet
	if unix.SchedGetaffinity(0, &old) != nil {
		return runtime.UnlockOSThread
	}
	only.Set(coreAt(i))
	if unix.SchedSetaffinity(0, &only) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &old) // these cores were ours before
		runtime.UnlockOSThread()
	}
}

// copySeconds is how long one of n threads, each on a core of its own and all at the same time, takes to copy that many
// bytes from one buffer of its own to another; the least of several runs.
func copySeconds(n int, bytes int64) float64 {
	const span = 20 * time.Millisecond
	best := make([]float64, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer onCore(i)()
			from, to := make([]byte, bytes), make([]byte, bytes)
			for j := range from {
				from[j] = byte(j)
			}
			copy(to, from)
			times := max(1, int(64<<10/bytes)) // so that the clock is read seldom
			best[i] = math.Inf(1)
			for end := time.Now().Add(span); time.Now().Before(end); {
				begin := time.Now()
				for range times {
					copy(to, from)
				}
				best[i] = min(best[i], time.Since(begin).Seconds()/float64(times))
			}
		})
	}
	all.Wait()
	slowest := 0.0
	for _, b := range best {
		slowest = max(slowest, b)
	}
	return slowest
}
