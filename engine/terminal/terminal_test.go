package terminal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/engine/terminal"
)

// TestWriter writes a text in pieces of every length: what arrives is the same.
func TestWriter(t *testing.T) {
	const text = "one\ttwo\n\x1b[2J µs × 漢 \u202e 😀 \u009b\x7f\xff\xe6\xbc end\n"
	for n := 1; n <= len(text); n++ {
		var b strings.Builder
		w := terminal.New(&b)
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			piece := rest[:min(n, len(rest))]
			if got, err := fmt.Fprint(w, piece); got != len(piece) || err != nil {
				t.Fatalf("%q: %d, %v", piece, got, err)
			}
		}
		if b.String() != plain.Text(text) {
			t.Errorf("in pieces of %d: %q, want %q", n, b.String(), plain.Text(text))
		}
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriterThatFails(t *testing.T) {
	if _, err := fmt.Fprint(terminal.New(full{}), "x"); !errors.Is(err, errFull) {
		t.Errorf("%v, want %v", err, errFull)
	}
}
