package launch

import (
	"bytes"
	"io"
	"sync"
)

// output merges what ranks write, so that their lines are not torn.
type output struct {
	stdout, stderr io.Writer
	mu             sync.Mutex
}

// copy passes lines on until the end of the file. A line that does not end is passed on in parts of 64 KiB.
func (o *output) copy(dst io.Writer, src io.Reader, label string, keep *tail) {
	buf := make([]byte, 64<<10)
	have := 0
	for {
		n, err := src.Read(buf[have:])
		have += n
		end := bytes.LastIndexByte(buf[:have], '\n') + 1
		if err != nil || have == len(buf) && end == 0 {
			end = have
		}
		o.write(dst, buf[:end], label)
		keep.add(buf[:end])
		have = copy(buf, buf[end:have])
		if err != nil {
			return
		}
	}
}

func (o *output) write(dst io.Writer, text []byte, label string) {
	if len(text) == 0 {
		return
	}
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
