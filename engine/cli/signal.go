package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// signalled is the cause of a context that a signal ended.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string { return fmt.Sprintf("ended by signal %d (%s)", s.signal, s.signal) }

// signalContext is done, with the signal as its cause, when the user or the system asks weir to end. A second signal
// ends it at once.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals) // the default action is back
			cancel(signalled{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// How long a command may take to end once it has been asked to. What is left then is not waited for: a read that the kernel does not
// give back, a reader that does not read, a driver that hangs. The reaper ends what the command had started.
const (
	endPatience    = time.Second      // a command that has started nothing
	askedPatience  = 10 * time.Second // one that has started plugins to ask them: they get 5 s, and 3 s more once killed
	servedPatience = 30 * time.Second // one with ranks (5 s until they are killed), plugins, and spans to send (5 s)
)

// ending is how long the command may take to end.
type ending struct {
	mu       sync.Mutex
	patience time.Duration
}

// needs says that what the command has started needs so long.
func (e *ending) needs(patience time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.patience = max(e.patience, patience)
}

func (e *ending) longest() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(e.patience, endPatience)
}

// endTick is how often it is looked how long a command may still take.
const endTick = 50 * time.Millisecond

// execute runs the command line. A signal ends it in time, whatever it is doing.
func (e *ending) execute(ctx context.Context, root *cobra.Command) error {
	return finish(ctx, e.longest, func() error { return root.ExecuteContext(ctx) })
}

// finish is what run returns, or ctx's cause if run goes on for too long after ctx is done.
func finish(ctx context.Context, longest func() time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	tick := time.NewTicker(endTick)
	defer tick.Stop()
	for asked := time.Now(); ; {
		select {
		case err := <-done:
			return err
		case now := <-tick.C:
			if now.Sub(asked) > longest() {
				return context.Cause(ctx)
			}
		}
	}
}

// interruptible runs what computes for long, or writes, and leaves it when ctx is done.
func interruptible(ctx context.Context, run func() error) error {
	return finish(ctx, func() time.Duration { return 0 }, run)
}

// ignoreSignals is for the process that cleans up after another one, which may get a signal too, as all of a service do. By hand, in a
// terminal, it ends as every command does.
func ignoreSignals() {
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	}
}
