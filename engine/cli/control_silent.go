package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/sdk/proto/trust"
)

const (
	// stoppedPatience is for how long an engine may stand still before it counts as stopped.
	stoppedPatience = 2 * time.Second
	// stoppedEvery is how often that is looked at.
	stoppedEvery = 100 * time.Millisecond
)

// silence is that an engine runs, for the kernel has connected to it, and does not answer.
type silence struct {
	folder  string
	process int32 // 0 if it is in another PID namespace
	state   byte  // as /proc/PID/stat has it
	waited  time.Duration
}

func (s *silence) Error() string {
	who := fmt.Sprintf("the engine that runs as process %d", s.process)
	if s.process == 0 {
		who = "the engine of " + s.folder
	}
	switch s.state {
	case 'T':
		return fmt.Sprintf("%s does not answer: a signal has stopped it (SIGSTOP, or Ctrl-Z in its terminal); continue it with kill -CONT %d", who, s.process)
	case 't':
		return fmt.Sprintf("%s does not answer: a debugger holds it", who)
	}
	return fmt.Sprintf("%s has not answered within %s; its log (log.level: debug) may say what it does", who, s.waited)
}

// watch looks at the process that a question was put to.
type watch struct {
	folder   string
	patience time.Duration
	process  atomic.Int32
	reached  atomic.Bool
}

func (w *watch) dial(ctx context.Context) (net.Conn, error) {
	socket, err := trust.Dial(ctx, filepath.Join(w.folder, controlSocket))
	if err != nil {
		return nil, err
	}
	if who, err := trust.Peer(socket); err == nil {
		w.process.Store(who.PID)
	}
	w.reached.Store(true)
	return socket, nil
}

// over is a context that ends, with the silence as its cause, when the process has been stopped for long enough.
func (w *watch) over(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(stoppedEvery)
		defer tick.Stop()
		looks := 0
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			looks++
			state := w.state()
			if state != 'T' && state != 't' {
				looks = 0
			}
			if looks >= int(stoppedPatience/stoppedEvery) {
				cancel(w.silence(state))
			}
		}
	}()
	return watched, func() { cancel(nil) }
}

func (w *watch) silence(state byte) *silence {
	return &silence{folder: w.folder, process: w.process.Load(), state: state, waited: w.patience}
}

// explain says why a question has no answer.
func (w *watch) explain(ctx context.Context, err error) error {
	var s *silence
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &s):
		return s
	case errors.Is(cause, context.DeadlineExceeded) && w.reached.Load():
		return w.silence(w.state())
	}
	return fmt.Errorf("the engine of %s does not answer: %w", w.folder, err)
}

// state is that of the process, 0 if it is not known.
func (w *watch) state() byte {
	pid := w.process.Load()
	if pid <= 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return processState(string(stat))
}

// processState finds the state behind the name, which may hold anything.
func processState(stat string) byte {
	if at := strings.LastIndex(stat, ") "); at >= 0 && at+2 < len(stat) {
		return stat[at+2]
	}
	return 0
}
