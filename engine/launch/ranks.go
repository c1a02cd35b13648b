// Package launch starts the processes of ranks, passes their output on, and leaves nothing behind.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/limits"
)

// Ranks say what to start.
type Ranks struct {
	Command []string                // program and arguments
	N       int                     // number of ranks
	Environ func(rank int) []string // the rank's whole environment
	Label   bool                    // put "[rank] " before every line of output
	Bind    bool                    // keep each rank on one core: rank r on the r-th of this process's, round and round
	Stdout  io.Writer
	Stderr  io.Writer

	Started func(rank, pgid int) // optional: a process has been started, the leader of a process group
	Exited  func(Exit)           // optional: a rank's process has ended
	Lost    func() []int         // optional: ranks known to have ended in the middle of something, in that order

	stopPatience time.Duration // 0: the constant
}

// Exit is how a rank's process ended.
type Exit struct {
	Rank   int
	PID    int
	State  *os.ProcessState
	At     time.Time
	Stderr []string // last lines
}

// Failed reports whether it ended otherwise than with code 0.
func (e Exit) Failed() bool { return e.State.ExitCode() != 0 }

func (e Exit) String() string {
	if status, ok := e.State.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("rank %d was killed by signal %d (%s)", e.Rank, status.Signal(), status.Signal())
	}
	return fmt.Sprintf("rank %d exited with code %d", e.Rank, e.State.ExitCode())
}

// RankError says which rank failed first. Its Error is one line; the rank's last words are in Exit.Stderr.
type RankError struct{ Exit Exit }

func (e *RankError) Error() string {
	s := e.Exit.String()
	if len(e.Exit.Stderr) > 0 {
		s += "; its last lines on standard error: " + strings.Join(e.Exit.Stderr, " | ")
	}
	return s
}

const (
	stopPatience   = 5 * time.Second // between SIGTERM and SIGKILL
	outputPatience = time.Second     // for output that a rank's own children still hold open, or that nobody reads
)

// Run starts the ranks and waits until all have ended. When one fails or ctx is done the others are stopped. The error
// is a *RankError, or ctx's cause.
func Run(ctx context.Context, r Ranks) error {
	j := &running{ranks: r, exits: make(chan Exit, r.N), leaders: map[int]int{}, stopping: make(chan struct{})}
	started := make(chan error, 1)
	finish := make(chan struct{})
	defer close(finish)
	go func() {
		// The kernel kills a child whose parent *thread* ends (PR_SET_PDEATHSIG), so this thread stays.
		runtime.LockOSThread()
		started <- j.start()
		<-finish
	}()
	if err := <-started; err != nil {
		close(j.stopping)
		j.kill(syscall.SIGKILL)
		j.drain()
		return err
	}
	return j.wait(ctx)
}

// running is a set of ranks' processes.
type running struct {
	ranks    Ranks
	exits    chan Exit
	stopping chan struct{} // closed when the ranks are being stopped

	mu      sync.Mutex
	leaders map[int]int // rank to process group
	left    int         // processes whose end has not been received
}

func (j *running) start() error {
	out := &output{stdout: j.ranks.Stdout, stderr: j.ranks.Stderr}
	for rank := range j.ranks.N {
		if err := j.startOne(rank, out); err != nil {
			return fmt.Errorf("start rank %d: %w", rank, err)
		}
	}
	return nil
}

func (j *running) startOne(rank int, out *output) error {
	cmd := exec.Command(j.ranks.Command[0], j.ranks.Command[1:]...)
	cmd.Env = j.ranks.Environ(rank)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		_, _ = stdout.Close(), outEnd.Close()
		return err
	}
	cmd.Stdout, cmd.Stderr = outEnd, errEnd
	err = j.bound(rank, cmd.Start)
	_, _ = outEnd.Close(), errEnd.Close()
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return startError(j.ranks.Command[0], err)
	}
	j.mu.Lock()
	j.leaders[rank] = cmd.Process.Pid
	j.left++
	j.mu.Unlock()
	if j.ranks.Started != nil {
		j.ranks.Started(rank, cmd.Process.Pid)
	}
	label := ""
	if j.ranks.Label {
		label = fmt.Sprintf("[%d] ", rank)
	}
	tail := &tail{}
	var copies sync.WaitGroup
	exited := make(chan struct{})
	copies.Go(func() { out.copy(out.stdout, stdout, label, nil, exited) })
	copies.Go(func() { out.copy(out.stderr, stderr, label, tail, exited) })
	copied := make(chan struct{})
	go func() { copies.Wait(); _, _ = stdout.Close(), stderr.Close(); close(copied) }()
	go func() {
		awaitExit(cmd.Process.Pid)
		at := time.Now()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the rank itself started and left
		state, err := cmd.Process.Wait()
		if err != nil {
			panic(err) // only for a process that is not ours to wait for
		}
		close(exited)
		wake(stdout)
		wake(stderr)
		j.outputDone(copied)
		j.exits <- Exit{Rank: rank, PID: cmd.Process.Pid, State: state, At: at, Stderr: tail.lines()}
	}()
	return nil
}

// awaitExit waits for a child's end without reaping it, so that its number, and its group's, stay its own.
func awaitExit(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// outputDone waits until a rank's output has been passed on, however slowly it is read; but once the ranks are being
// stopped nobody may hold that up by not reading at all.
func (j *running) outputDone(copied <-chan struct{}) {
	select {
	case <-copied:
		return
	case <-j.stopping:
	}
	select {
	case <-copied:
	case <-time.After(outputPatience):
	}
}

func startError(path string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("there is no program %q", path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%q is not an executable file", path)
	}
	return limits.Explain(err)
}

// wait collects the ranks' ends and stops the others after the first failure.
func (j *running) wait(ctx context.Context) error {
	var stopped error // why the ranks were stopped
	var first *Exit   // the failure that came first: it may be heard of after one that it caused
	var lost []int
	stop := sync.OnceFunc(func() {
		close(j.stopping)
		j.kill(syscall.SIGTERM)
		time.AfterFunc(cmp.Or(j.ranks.stopPatience, stopPatience), func() { j.kill(syscall.SIGKILL) })
	})
	done := ctx.Done()
	for j.left > 0 {
		select {
		case e := <-j.exits:
			j.ended(e)
			if !e.Failed() {
				continue
			}
			if first == nil && j.ranks.Lost != nil {
				lost = j.ranks.Lost()
			}
			if first == nil || before(e, *first, lost) {
				first = &e
			}
			stop()
		case <-done:
			done = nil
			if first == nil {
				stopped = context.Cause(ctx)
			}
			stop()
		}
	}
	if stopped == nil && first != nil {
		return &RankError{Exit: *first}
	}
	return stopped
}

// before reports whether a is to blame rather than b. lost are the ranks that were known to be lost when the first failure
// was heard of: on a busy machine that may be one that they caused.
func before(a, b Exit, lost []int) bool {
	place := func(e Exit) int {
		if i := slices.Index(lost, e.Rank); i >= 0 {
			return i
		}
		return len(lost)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), a.At.Compare(b.At)) < 0
}

func (j *running) ended(e Exit) {
	j.mu.Lock()
	delete(j.leaders, e.Rank)
	j.left--
	j.mu.Unlock()
	if j.ranks.Exited != nil {
		j.ranks.Exited(e)
	}
}

// drain waits for what was started when a later rank could not be.
func (j *running) drain() {
	for j.left > 0 {
		j.ended(<-j.exits)
	}
}

// kill signals the process groups that are left.
func (j *running) kill(sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pgid := range j.leaders {
		_ = syscall.Kill(-pgid, sig) // one that has just ended needs none
	}
}
