package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/weir-project/weir/core/plain"
)

// maxLine is how much of a line is kept; the rest of it is dropped.
const maxLine = 16 << 10

// lines turns what a plugin prints into log records, one a line. Whatever is written, Write takes all of it.
type lines struct {
	log   *slog.Logger
	level slog.Level // of lines that do not name theirs

	mu   sync.Mutex
	line []byte
	cut  bool // the line was too long
	tail tail
}

func (w *lines) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		room := maxLine - len(w.line)
		w.cut = w.cut || len(part) > room
		w.line = append(w.line, part[:min(room, len(part))]...)
		if ended {
			w.emit()
		}
		p = rest
	}
	return n, nil
}

// Flush makes a line of what came after the last newline.
func (w *lines) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.emit()
	}
}

// Last are the last words, for a plugin that died: one line, "" if it said nothing.
func (w *lines) Last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tail.String()
}

func (w *lines) emit() {
	line := strings.TrimRight(strings.ToValidUTF8(string(w.line), "\uFFFD"), "\r")
	if w.cut {
		line += " …"
	}
	w.line, w.cut = w.line[:0], false
	if strings.TrimSpace(line) == "" {
		return
	}
	r := parse(line, w.level)
	w.tail.add(r.message)
	w.log.LogAttrs(context.Background(), r.level, r.message, r.attrs...)
}

type record struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// parse understands the JSON lines of hclog and of plugin.Serve; everything else is its own message. Nothing is taken
// for granted: a field of another type is kept as an attribute.
func parse(line string, level slog.Level) record {
	text := record{level: level, message: line}
	var fields map[string]any
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &fields) != nil {
		return text
	}
	message, ok := fields["@message"].(string)
	if !ok {
		return text
	}
	r := record{level: level, message: message}
	if name, ok := fields["@level"].(string); ok {
		r.level = levelOf(name, level)
	}
	delete(fields, "@message")
	for _, key := range []string{"@level", "@timestamp"} {
		if _, ok := fields[key].(string); ok {
			delete(fields, key)
		}
	}
	for key, value := range fields {
		r.attrs = append(r.attrs, slog.Any(key, value))
	}
	slices.SortFunc(r.attrs, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	return r
}

func levelOf(name string, otherwise slog.Level) slog.Level {
	if strings.EqualFold(name, "trace") {
		return slog.LevelDebug
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return otherwise
	}
	return l
}

// tail keeps what a person wants to see of a process that died.
type tail struct {
	headline string // the line that begins a Go panic; the stack that follows says less
	last     []string
}

const (
	tailLines = 3
	tailWidth = 300
)

func (t *tail) add(line string) {
	if line = plain.Line(line); len(line) > tailWidth {
		line = strings.ToValidUTF8(line[:tailWidth], "") + "…"
	}
	if t.headline == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		t.headline = line
	}
	t.last = append(t.last, line)
	if len(t.last) > tailLines {
		t.last = slices.Delete(t.last, 0, 1)
	}
}

func (t *tail) String() string {
	if t.headline != "" {
		return t.headline
	}
	return strings.Join(t.last, " | ")
}

// describeEnd says how a process ended, for people.
func describeEnd(how, lastWords string) error {
	if lastWords == "" {
		return fmt.Errorf("the plugin's process ended: %s", how)
	}
	return fmt.Errorf("the plugin's process ended: %s; it last said: %s", how, lastWords)
}
