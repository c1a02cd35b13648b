package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/tests/await"
)

// The faults that calls go on under.
const (
	planKilled    = "plugin of a plan killed"
	planPaused    = "plugin of a plan stopped for a while"
	planStarved   = "plugin of a plan without descriptors for a while"
	planReloaded  = "plugin of a plan reloaded"
	reloadStruck  = "new process of a reload killed"
	workerKilled  = "worker killed"
	workerPaused  = "worker stopped for a while"
	workerStopped = "worker stopped past its deadline"
	workerStarved = "worker without descriptors for a while"
	workerAnew    = "worker reloaded"
	bothKilled    = "two workers killed one after another"
	rankPaused    = "rank stopped for a while"
)

// strikes carry out the faults that calls go on under.
var strikes = map[string]func(*round, fault) error{
	planKilled:    func(r *round, f fault) error { return r.strike(r.shm, f, kill) },
	planPaused:    func(r *round, f fault) error { return r.strike(r.shm, f, stop) },
	planStarved:   func(r *round, f fault) error { return r.strike(r.shm, f, starve) },
	planReloaded:  func(r *round, _ fault) error { return r.reloadInStorm("shm") },
	reloadStruck:  (*round).strikeReload,
	workerKilled:  func(r *round, f fault) error { return r.strike(r.worker(f.whom), f, kill) },
	workerPaused:  func(r *round, f fault) error { return r.strike(r.worker(f.whom), f, stop) },
	workerStopped: func(r *round, f fault) error { return r.strike(r.worker(f.whom), f, stop) },
	workerStarved: func(r *round, f fault) error { return r.strike(r.worker(f.whom), f, starve) },
	workerAnew:    (*round).reloadWorker,
	bothKilled:    (*round).killBoth,
	rankPaused:    func(r *round, f fault) error { return r.strike(r.rankNow(f.whom), f, stop) },
}

// drawStrike is a fault that calls go on under. Workers are among those struck if the round has some.
func drawStrike(r *rand.Rand, p *plan, workers bool) fault {
	f := fault{after: between(r, 10*time.Millisecond, 180*time.Millisecond), whom: r.IntN(1 << 10)}
	f.kind = oneOf(r, planKilled, planKilled, planPaused, planReloaded, reloadStruck, planStarved, rankPaused, rankPaused)
	if workers && r.IntN(4) > 0 {
		f.kind = oneOf(r, workerKilled, workerKilled, workerKilled, workerPaused, workerStopped, workerAnew, workerAnew, workerAnew, bothKilled, workerStarved)
	}
	switch f.kind {
	case planPaused, planStarved, workerPaused, workerStarved, rankPaused:
		f.long = between(r, 10*time.Millisecond, 150*time.Millisecond)
	case workerStopped:
		f.long = 600 * time.Millisecond
	case reloadStruck, bothKilled:
		f.long = between(r, 0, 150*time.Millisecond)
	}
	if strings.HasPrefix(f.kind, "rank ") {
		f.whom %= p.world
	}
	return f
}

// strikeAll makes the faults of a job, at their times.
func (r *round) strikeAll(job int) error {
	for _, f := range r.faults {
		strike := strikes[f.kind]
		if f.job != job || strike == nil {
			continue
		}
		if !r.sleep(f.after) {
			return nil
		}
		at := time.Now()
		if err := strike(r, f); err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
		r.note(f, at, "calls go on")
	}
	return nil
}

// whoever finds a process to strike.
type whoever func() (int, error)

func (r *round) shm() (int, error) { return r.plugin(filepath.Join(r.bin, "plugins", "shm"), "") }

func (r *round) rankNow(n int) whoever { return func() (int, error) { return r.rank(n) } }

// workers is how many worker plugins a round has.
const workers = 2

func (r *round) worker(n int) whoever {
	return func() (int, error) { return r.plugin(r.workerFile(), workerName(n%workers)) }
}

func (r *round) workerFile() string { return filepath.Join(r.bin, "programs", "badworker") }

func workerName(n int) string { return "bad" + strconv.Itoa(n) }

func (r *round) strike(who whoever, f fault, how func(*round, int, time.Duration) error) error {
	pid, err := who()
	if err != nil {
		return err
	}
	return how(r, pid, f.long)
}

func kill(_ *round, pid int, _ time.Duration) error {
	send(pid, syscall.SIGKILL)
	return nil
}

func stop(r *round, pid int, long time.Duration) error {
	pause(r.ctx, pid, long)
	return nil
}

// starve has a process have no room for another descriptor. What it has stays.
func starve(r *round, pid int, long time.Duration) error {
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		return nil // it has just ended
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}, nil)
	r.sleep(long)
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil)
	return nil
}

func (r *round) killBoth(f fault) error {
	for n := range workers {
		if err := r.strike(r.worker(f.whom+n), f, kill); err != nil {
			return err
		}
		r.sleep(f.long)
	}
	return nil
}

// reloadWorker brings a worker back into service: classes are decided anew.
func (r *round) reloadWorker(f fault) error {
	return r.reloadInStorm(workerName(f.whom % workers))
}

// strikeReload kills the process that a reload has started, whenever that is: before it serves, so that the old one stays, or after.
func (r *round) strikeReload(f fault) error {
	old, err := r.shm()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- r.reloadInStorm("shm") }()
	for end := await.By(targetPatience); time.Now().Before(end) && r.ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		young := 0
		for _, p := range r.left() {
			if p.args[0] == filepath.Join(r.bin, "plugins", "shm") && p.pid != old {
				young = p.pid
			}
		}
		if young != 0 {
			r.sleep(f.long)
			send(young, syscall.SIGKILL)
			return <-done
		}
	}
	return <-done
}

// serves is what a reload says that a fault has come in its way; then the old process serves on.
var serves = regexp.MustCompile(`the old process serves on|reload plugin \w+: |being reloaded`)

// reloadInStorm reloads a plugin. It may fail, with words why, where plugins are struck at the same time.
func (r *round) reloadInStorm(name string) error {
	said, err := r.reload(name)
	if err != nil {
		if _, why := said.find(serves); !why {
			return fmt.Errorf("weir plugins reload %s: %w:\n%s", name, err, said)
		}
	}
	return nil
}
