package launch

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// output merges what ranks write, so that their lines are not torn.
type output struct {
	stdout, stderr io.Writer
	mu             sync.Mutex
}

// copy passes lines on until the end of the file. A line that does not end is passed on in parts of 64 KiB.
//
// Once the process has exited it ends too when nothing more has come for a while: a process that the rank started and
// that has escaped may hold the pipe open.
func (o *output) copy(dst io.Writer, src *os.File, label string, keep *tail, exited <-chan struct{}) {
	buf := make([]byte, 64<<10)
	have := 0
	for {
		select {
		case <-exited:
			wake(src)
		default:
		}
		n, err := src.Read(buf[have:])
		end := 0
		if i := bytes.LastIndexByte(buf[have:have+n], '\n'); i >= 0 { // there is none before
			end = have + i + 1
		}
		have += n
		if err != nil || have == len(buf) && end == 0 {
			end = have
		}
		if end > 0 {
			o.write(dst, buf[:end], label)
			keep.add(buf[:end])
			have = copy(buf, buf[end:have])
		}
		if err != nil {
			return
		}
	}
}

// wake bounds a read that goes on, and the next one.
func wake(f *os.File) { _ = f.SetReadDeadline(time.Now().Add(outputPatience)) } // a file that is closed needs none

func (o *output) write(dst io.Writer, text []byte, label string) {
	if label != "" {
		var labelled []byte
		for line := range bytes.Lines(text) {
			labelled = append(append(labelled, label...), line...)
		}
		text = labelled
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = dst.Write(text) // nobody reads any more: the rank need not fail for that
}

// tail keeps the last lines of a rank's standard error.
type tail struct {
	mu   sync.Mutex
	last []string
}

const (
	tailLines = 10
	tailBytes = 500 // of one line
)

func (t *tail) add(text []byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			t.last = append(t.last, string(line[:min(len(line), tailBytes)]))
		}
	}
	t.last = t.last[max(0, len(t.last)-tailLines):]
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}
