package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/plain"
)

// progress says on standard error how far a long measurement is: one line that is rewritten on a terminal, else a line
// now and then. It is used from several goroutines.
type progress struct {
	out      io.Writer
	terminal bool
	total    int

	mu      sync.Mutex
	count   int
	what    string
	shown   bool // a line stands on the terminal
	written time.Time
	start   time.Time
}

// progressEvery is the least time between two lines that are not on a terminal.
const progressEvery = 10 * time.Second

func newProgress(out io.Writer, total int) *progress {
	return &progress{out: out, terminal: isTerminal(out), total: total, written: time.Now(), start: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// at says what is being measured.
func (p *progress) at(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
	if !p.terminal && time.Since(p.written) >= progressEvery {
		fmt.Fprintf(p.out, "weir bench: %s\n", p.line())
		p.written = time.Now()
	}
}

// done adds to what has been measured.
func (p *progress) done(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += n
}

func (p *progress) line() string {
	return fmt.Sprintf("%d of %d, %s, %s", p.count, p.total, plain.Line(p.what), time.Since(p.start).Round(time.Second))
}

// pause takes the line off the terminal, so that something else can be printed.
func (p *progress) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// resume puts it back.
func (p *progress) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.what != "" && p.count < p.total {
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line())
		p.shown = true
	}
}

// end takes the line off for good.
func (p *progress) end() {
	p.pause()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terminal = false
}
