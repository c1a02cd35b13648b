package loglimit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-project/weir/engine/loglimit"
)

// buffer is text that timers add to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// log is a log without times, and what it holds.
func log() (*slog.Logger, *buffer) {
	var b buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &b
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, text := log()
		s := loglimit.New(to.With("rank", 3), loglimit.Limit{Records: 2, Bytes: 1000, Window: time.Second})
		say := func(n int, level slog.Level) {
			for range n {
				s.Log(t.Context(), level, "x")
			}
		}
		say(1, slog.LevelInfo)
		time.Sleep(400 * time.Millisecond)
		say(5, slog.LevelInfo)
		say(1, slog.LevelError)
		say(1, slog.LevelDebug) // nobody would see it, so it counts for nothing
		want := strings.Repeat("level=INFO msg=x rank=3\n", 2)
		if text.String() != want {
			t.Fatalf("in the window:\n%s", text)
		}
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		want += "level=ERROR msg=\"more of this source was left out of the log\" rank=3 suppressed=5 within=1s\n"
		if text.String() != want {
			t.Fatalf("after it:\n%s", text)
		}
		say(3, slog.LevelWarn)
		s.Flush()
		s.Flush()
		want += strings.Repeat("level=WARN msg=x rank=3\n", 2) + "level=WARN msg=\"more of this source was left out of the log\" rank=3 suppressed=1 within=1s\n"
		if text.String() != want {
			t.Fatalf("flushed:\n%s", text)
		}
	})
}

// TestBytes: few long records fill a log too; each source has its own measure.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, text := log()
		limit := loglimit.Limit{Records: 100, Bytes: 2500, Window: time.Second}
		a, b := loglimit.New(to, limit), loglimit.New(to, limit)
		for range 10 {
			a.With("k", "v").Info("m", "text", strings.Repeat("x", 1000))
		}
		b.Info("other")
		a.Flush()
		if got := text.String(); strings.Count(got, "msg=m") != 3 || !strings.Contains(got, "suppressed=7") || !strings.Contains(got, "msg=other") {
			t.Error(got)
		}
	})
}
