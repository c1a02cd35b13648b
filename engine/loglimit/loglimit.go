// Package loglimit keeps one source of log records from filling the log, and says how many it left out.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limit is how much of one source is logged in a window of time.
type Limit struct {
	Records int
	Bytes   int // of messages and texts beside them
	Window  time.Duration
}

// Source is the log of one source. Records beyond the limit are counted, and the end of the window says how many there were.
type Source struct {
	*slog.Logger
	meter *meter
}

// New limits what goes to a log.
func New(to *slog.Logger, l Limit) *Source {
	m := &meter{limit: l, to: to}
	return &Source{Logger: slog.New(&handler{Handler: to.Handler(), meter: m}), meter: m}
}

// Flush says now what was left out, when the source has ended.
func (s *Source) Flush() { s.meter.close() }

// meter counts a window's records.
type meter struct {
	limit Limit
	to    *slog.Logger

	mu      sync.Mutex
	began   time.Time
	records int
	bytes   int
	left    int // out
	worst   slog.Level
	timer   *time.Timer
}

// take reports whether a record may be logged.
func (m *meter) take(bytes int, level slog.Level) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.began) >= m.limit.Window {
		m.tell()
		m.began, m.records, m.bytes = now, 0, 0
	}
	if m.records < m.limit.Records && m.bytes < m.limit.Bytes {
		m.records++
		m.bytes += bytes
		return true
	}
	if m.left++; m.left == 1 {
		m.worst = level
		m.timer = time.AfterFunc(m.limit.Window-time.Since(m.began), m.close)
	}
	m.worst = max(m.worst, level)
	return false
}

func (m *meter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell()
}

// tell says how many were left out, if any.
func (m *meter) tell() {
	if m.left == 0 {
		return
	}
	m.timer.Stop()
	m.to.Log(context.Background(), m.worst, "more of this source was left out of the log", "suppressed", m.left, "within", m.limit.Window)
	m.left = 0
}

// handler lets through what the meter takes.
type handler struct {
	slog.Handler
	meter *meter
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	bytes := len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindString {
			bytes += len(a.Value.String())
		}
		return true
	})
	if !h.meter.take(bytes, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{Handler: h.Handler.WithAttrs(attrs), meter: h.meter}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{Handler: h.Handler.WithGroup(name), meter: h.meter}
}
