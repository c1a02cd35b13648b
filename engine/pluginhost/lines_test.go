package pluginhost

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinesInPieces(t *testing.T) {
	text := "first\r\n\n{\"@level\":\"error\",\"@message\":\"second\",\"@timestamp\":\"2026-01-01T00:00:00Z\",\"a\":{\"b\":1}}\nthird"
	want := []string{"level=INFO msg=first", `level=ERROR msg=second a=map[b:1]`, "level=INFO msg=third", ""}
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := testLines(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if got, err := w.Write(rest[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		w.Flush()
		w.Flush() // nothing is left
		if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
			t.Fatalf("in pieces of %d: %s", size, diff)
		}
	}
}

func testLines(out *bytes.Buffer) *lines {
	return &lines{log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
}

func TestLongLineIsCut(t *testing.T) {
	var out bytes.Buffer
	w := testLines(&out)
	for range 100 {
		_, _ = w.Write(bytes.Repeat([]byte{'x'}, 10<<10))
	}
	if len(w.line) > maxLine {
		t.Errorf("%d bytes are kept", len(w.line))
	}
	_, _ = w.Write([]byte("\nshort\n"))
	got := strings.Split(out.String(), "\n")
	if len(got) != 3 || !strings.HasSuffix(got[0], "x …\"") || !strings.Contains(got[1], "msg=short") {
		t.Errorf("%d lines, the second %q", len(got), got[1])
	}
}

func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{
		"":           "",
		"a\nb":       "a | b",
		"a\nb\nc\nd": "b | c | d",
		"panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3": "panic: nil map",
		`{"@message":"no card"}`:              "no card",
		strings.Repeat("x", tailWidth) + "yz": strings.Repeat("x", tailWidth) + "…",
	} {
		var out bytes.Buffer
		w := testLines(&out)
		_, _ = w.Write([]byte(said))
		w.Flush()
		if got := w.Last(); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}
