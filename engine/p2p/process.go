package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a worker as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	conn  conn
	words *lastWords
	ended chan struct{} // closed when it has been waited for
	opts  *Options
}

// start runs a worker, as the leader of a process group.
func start(opts *Options) (*process, error) {
	c, other, err := newPair()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(opts.Command[0], opts.Command[1:]...), conn: c, words: &lastWords{}, ended: make(chan struct{}), opts: opts}
	p.cmd.Env, p.cmd.ExtraFiles, p.cmd.Stderr = opts.Environ, []*os.File{other}, p.words
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second
	err = p.cmd.Start()
	_ = other.Close()
	if err != nil {
		_ = c.socket.Close()
		return nil, fmt.Errorf("start %s: %w", opts.Command[0], err)
	}
	if opts.Started != nil {
		opts.Started(p.cmd.Process.Pid)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	return p, nil
}

// died is a worker that has ended by itself.
type died struct{ text string }

func (d *died) Error() string { return d.text }

// call has the worker do something by a point in time, and while ctx is not done. file goes along; out, if any, is the caller's to close. A worker that
// did not answer is of no further use.
func (p *process) call(ctx context.Context, q request, file *os.File, by time.Time) (r reply, out *os.File, err error) {
	if err := p.conn.socket.SetDeadline(by); err != nil {
		return r, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.socket.SetDeadline(time.Now()) })
	defer stop()
	if err = p.conn.send(q, file); err == nil {
		out, err = p.conn.receive(&r)
	}
	var timeout net.Error
	switch {
	case err == nil:
		return r, out, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return r, nil, fmt.Errorf("%s: %w", q.Op, errHangs)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return r, nil, &died{p.end()}
	}
	return r, nil, err
}

// errHangs is a worker that does not answer.
var errHangs = errors.New("no answer in time")

// reapPatience is how long a process that was killed may take to end: one that hangs in the driver may never.
const reapPatience = 2 * time.Second

// kill ends the worker and whatever it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // unless it has ended by itself
	_ = p.conn.socket.Close()
	select {
	case <-p.ended:
		if p.opts.Ended != nil {
			p.opts.Ended(p.cmd.Process.Pid)
		}
	case <-time.After(reapPatience):
	}
}

// end says how a worker ended by itself.
func (p *process) end() string {
	select {
	case <-p.ended:
		if text := p.words.String(); text != "" {
			return fmt.Sprintf("the process ended (%s): %s", p.cmd.ProcessState, text)
		}
		return fmt.Sprintf("the process ended (%s)", p.cmd.ProcessState)
	case <-time.After(reapPatience):
	}
	return "the process does not answer any more"
}

// lastWords keeps the end of what a process writes.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const maxWords = 400

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if n := len(l.text) - maxWords; n > 0 {
		l.text = l.text[n:]
	}
	return len(b), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(strings.Fields(string(l.text)), " ")
}
