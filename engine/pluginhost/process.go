package pluginhost

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/loglimit"
)

// process is a plugin's process: go-plugin's runner, so that everything about it is in our hands. It leads a process
// group of its own, which ends with it; it holds one end of the lifeline; its output is read by us, go-plugin sees the
// first line of stdout alone.
type process struct {
	path    string
	file    *os.File // that was checked, until Start returns
	env     []string
	onStart func(pgid int)
	onEnd   func(pgid int)
	stdout  *lines
	stderr  *lines
	printed *loglimit.Source // both

	dir      string // for its socket
	startErr error  // why it could not be started; settled when Start returns
	feed     *io.PipeReader
	lifeline *os.File // our end

	life context.Context // done, with a cause, once the process has ended
	end  context.CancelCauseFunc
	done chan struct{} // closed once it is reaped and its output is read

	mu     sync.Mutex
	pid    int    // 0 before it was started
	first  string // line of stdout
	killed bool   // by us, before it ended
	reaped bool
	status string // how it ended
	failed bool   // other than by exit code 0
}

// printedLimit is what one process of a plugin can have the engine log of what it prints: the stack of a crash fits in.
var printedLimit = loglimit.Limit{Records: 1000, Bytes: 512 << 10, Window: 10 * time.Second}

func newProcess(b binary, opts Options, log *slog.Logger) *process {
	printed := loglimit.New(log, printedLimit)
	p := &process{
		printed: printed,
		path:    b.path, file: b.file, env: environment(b.spec.Env), onStart: opts.OnStart, onEnd: opts.OnEnd, done: make(chan struct{}),
		stdout: &lines{log: printed.With("stream", "stdout"), level: slog.LevelInfo},
		stderr: &lines{log: printed.Logger, level: slog.LevelInfo},
	}
	p.life, p.end = context.WithCancelCause(context.Background())
	return p
}

// Start is called by go-plugin. The process never inherits the engine's stdin.
func (p *process) Start(context.Context) error {
	p.startErr = p.start()
	if p.startErr != nil {
		p.end(p.startErr)
		close(p.done)
	}
	return p.startErr
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return errStopped
	}
	var pipes [3][2]*os.File // stdout, stderr, lifeline
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[:i])
			return err
		}
		pipes[i] = [2]*os.File{r, w}
	}
	cmd, err := p.command()
	if err != nil {
		closeAll(pipes[:])
		return err
	}
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = pipes[0][1], pipes[1][1]
	cmd.ExtraFiles = []*os.File{pipes[2][0], p.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if cmd.Path != p.path {
		_ = os.Remove(cmd.Path) // only needed for that
		var named *fs.PathError
		if errors.As(err, &named) { // nobody knows the link
			err = named.Err
		}
	}
	if err != nil {
		closeAll(pipes[:])
		return err
	}
	for _, f := range []*os.File{pipes[0][1], pipes[1][1], pipes[2][0]} {
		_ = f.Close()
	}
	p.pid, p.lifeline = cmd.Process.Pid, pipes[2][1]
	if p.onStart != nil {
		p.onStart(p.pid)
	}
	feed, handshake := io.Pipe()
	p.feed = feed
	var reading sync.WaitGroup
	reading.Go(func() { p.readStdout(pipes[0][0], handshake) })
	reading.Go(func() { _, _ = io.Copy(p.stderr, pipes[1][0]) })
	go p.reap(cmd, &reading, handshake, pipes[0][0], pipes[1][0])
	return nil
}

// command runs the file that was checked, whatever its path leads to by now: through a link, named as the file is for the sake of
// who lists processes, to the descriptor that the child gets. A script's interpreter opens it by its path, which only the user
// can lead elsewhere: see trusted.
func (p *process) command() (*exec.Cmd, error) {
	start := make([]byte, 2)
	if _, err := p.file.ReadAt(start, 0); err != nil || string(start) == "#!" {
		return exec.Command(p.path), nil
	}
	link := filepath.Join(p.dir, filepath.Base(p.path))
	if err := os.Symlink("/proc/self/fd/4", link); err != nil { // the second of ExtraFiles
		return nil, err
	}
	cmd := exec.Command(link)
	cmd.Args[0] = p.path
	return cmd, nil
}

func closeAll(pipes [][2]*os.File) {
	for _, pair := range pipes {
		_ = pair[0].Close()
		_ = pair[1].Close()
	}
}

// readStdout gives the first line to go-plugin and the others to the log.
func (p *process) readStdout(from io.Reader, handshake io.Writer) {
	r := bufio.NewReaderSize(from, maxLine)
	line, err := r.ReadSlice('\n')
	if text := strings.TrimSpace(string(line)); len(line) > 0 {
		p.mu.Lock()
		p.first = text
		p.mu.Unlock()
		_, _ = io.WriteString(handshake, text+"\n")
	}
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		_, _ = io.Copy(p.stdout, r)
	}
}

// drainTime is how long a process that is gone may keep its pipes open through one that left its group.
const drainTime = 200 * time.Millisecond

// reap waits for the end of the process and takes what it left behind with it.
func (p *process) reap(cmd *exec.Cmd, reading *sync.WaitGroup, handshake io.Closer, pipes ...io.Closer) {
	defer close(p.done)
	for {
		// Without reaping, so that the group's number is still its own when the group is killed.
		if err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	err := cmd.Wait()
	p.reaped, p.failed, p.status = true, err != nil, cmd.ProcessState.String()
	p.mu.Unlock()
	if p.onEnd != nil {
		p.onEnd(p.pid)
	}

	read := make(chan struct{})
	go func() {
		defer close(read)
		reading.Wait()
	}()
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	for _, c := range pipes {
		_ = c.Close()
	}
	_ = handshake.Close()
	<-read
	p.stdout.Flush()
	p.stderr.Flush()
	p.printed.Flush()
	p.end(describeEnd(p.status, p.stderr.Last()))
}

// kill ends the process and its group, or keeps it from being started.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.killed = true
	if p.pid != 0 {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

// cutLifeline tells the process that nobody needs it any more.
func (p *process) cutLifeline() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lifeline != nil {
		_ = p.lifeline.Close()
		p.lifeline = nil
	}
}

// firstLine is what the process printed first on stdout; "" for nothing so far.
func (p *process) firstLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

// ended says whether the process ended by itself, and whether as a failure.
func (p *process) ended() (itself, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped && !p.killed, p.failed
}

// The rest of what go-plugin asks of a runner.

func (p *process) Wait(context.Context) error      { <-p.done; return context.Cause(p.life) }
func (p *process) Kill(context.Context) error      { p.kill(); return nil }
func (p *process) Stdout() io.ReadCloser           { return p.feed }
func (p *process) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (p *process) Name() string                    { return p.path }
func (p *process) Diagnose(context.Context) string { return "" }

func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return ""
	}
	return strconv.Itoa(p.pid)
}

func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

var _ runner.Runner = (*process)(nil)
