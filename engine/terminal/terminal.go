// Package terminal writes texts in which words of others stand, so that those give no orders to the terminal that shows them.
package terminal

import (
	"io"
	"sync"
	"unicode/utf8"

	"github.com/weir-project/weir/core/plain"
)

// New is a writer that passes on what plain.Text makes of what is written. JSON stays JSON.
func New(to io.Writer) io.Writer { return &writer{to: to} }

type writer struct {
	to io.Writer

	mu   sync.Mutex
	held []byte // the beginning of a character whose end has not been written yet
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(w.held, p...)
	whole := len(all) - begun(all)
	w.held = append([]byte(nil), all[whole:]...)
	if whole > 0 {
		if _, err := io.WriteString(w.to, plain.Text(string(all[:whole]))); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// begun is how many bytes at the end of a text are the beginning of a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
