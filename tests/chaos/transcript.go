package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
)

// line is something that a process printed.
type line struct {
	at   time.Time
	text string
}

// transcript is what some processes printed, in the order of its arrival.
type transcript struct {
	mu      sync.Mutex
	lines   []line
	changed chan struct{} // closed, and made anew, with every line
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (t *transcript) add(at time.Time, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{at, text})
	close(t.changed)
	t.changed = make(chan struct{})
}

// await waits for a line.
func (t *transcript) await(ctx context.Context, pattern *regexp.Regexp) (line, error) {
	for seen := 0; ; {
		t.mu.Lock()
		for ; seen < len(t.lines); seen++ {
			if l := t.lines[seen]; pattern.MatchString(l.text) {
				t.mu.Unlock()
				return l, nil
			}
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return line{}, fmt.Errorf("nobody says %q: %w", pattern, context.Cause(ctx))
		}
	}
}

// find is the first line that matches, if there is one.
func (t *transcript) find(pattern *regexp.Regexp) (line, bool) {
	if all := t.findAll(pattern); len(all) > 0 {
		return all[0], true
	}
	return line{}, false
}

func (t *transcript) findAll(pattern *regexp.Regexp) (found []line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if pattern.MatchString(l.text) {
			found = append(found, l)
		}
	}
	return found
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, l := range t.lines {
		fmt.Fprintf(&b, "%s %s\n", l.at.Format("05.000"), l.text)
	}
	return b.String()
}

// writer puts what one process writes into transcripts, line by line.
type writer struct {
	to   []*transcript
	rest []byte
}

func (w *writer) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		text, after, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		at := time.Now()
		for _, t := range w.to {
			t.add(at, string(text))
		}
		w.rest = after
	}
}

var _ io.Writer = (*writer)(nil)
