package launch

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writes keeps what is written, one string for each write.
type writes struct {
	texts []string
	err   error
}

func (w *writes) Write(b []byte) (int, error) {
	w.texts = append(w.texts, string(b))
	return len(b), w.err
}

func TestOutputPassesWholeLines(t *testing.T) {
	long := strings.Repeat("x", 150<<10)
	for name, c := range map[string]struct {
		in    string
		label string
		want  string
	}{
		"nothing":             {"", "[0] ", ""},
		"lines":               {"a\nb\n\nc\n", "", "a\nb\n\nc\n"},
		"labels":              {"a\nb\n\nc\n", "[7] ", "[7] a\n[7] b\n[7] \n[7] c\n"},
		"an end without line": {"a\nb", "[7] ", "[7] a\n[7] b"},
		"a long line":         {"a\n" + long + "\nb\n", "", "a\n" + long + "\nb\n"},
		"a long end":          {long + long, "", long + long},
		"not text":            {"\x00\xff\n\x80", "", "\x00\xff\n\x80"},
	} {
		for _, part := range []int{7, 1 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d bytes at a time", name, part), func(t *testing.T) {
				w := &writes{}
				(&output{}).copy(w, feed(t, c.in, part), c.label, nil, nil)
				if got := strings.Join(w.texts, ""); got != c.want {
					t.Errorf("%d bytes, want %d: %.100q, want %.100q", len(got), len(c.want), got, c.want)
				}
				for i, text := range w.texts[:max(0, len(w.texts)-1)] {
					if !strings.HasSuffix(text, "\n") && len(text) < 64<<10 {
						t.Errorf("write %d ends inside a line: %.100q", i, text)
					}
				}
			})
		}
	}
}

func TestOutputOfManyIsNotTorn(t *testing.T) {
	w := &writes{}
	o := &output{}
	var wg sync.WaitGroup
	for _, rank := range []string{"a", "b", "c"} {
		wg.Go(func() {
			o.copy(w, feed(t, strings.Repeat(rank+rank+rank+"\n", 500), 3), "", nil, nil)
		})
	}
	wg.Wait()
	count := map[string]int{}
	for line := range strings.Lines(strings.Join(w.texts, "")) {
		count[line]++
	}
	if diff := cmp.Diff(map[string]int{"aaa\n": 500, "bbb\n": 500, "ccc\n": 500}, count); diff != "" {
		t.Error(diff)
	}
}

// TestOutputNobodyReads holds that a rank whose output nobody reads can still write.
func TestOutputNobodyReads(t *testing.T) {
	text := strings.Repeat("line\n", 100_000) // more than a pipe holds
	w := &writes{err: io.ErrClosedPipe}
	(&output{}).copy(w, feed(t, text, len(text)), "", nil, nil)
	if got := len(strings.Join(w.texts, "")); got != len(text) {
		t.Errorf("%d bytes were taken from the rank, want %d", got, len(text))
	}
}

// feed is a pipe into which text is written in parts, and which is then closed.
func feed(t *testing.T, text string, part int) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	go func() {
		defer write.Close()
		for rest := text; rest != ""; rest = rest[min(part, len(rest)):] {
			if _, err := write.WriteString(rest[:min(part, len(rest))]); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return read
}

func TestTailKeepsTheLastLines(t *testing.T) {
	keep := &tail{}
	for i := range 30 {
		keep.add([]byte("  line " + string(rune('a'+i%26)) + " \r\n\n \n"))
	}
	keep.add([]byte(strings.Repeat("é", tailBytes)))
	var want []string
	for _, c := range "vwxyzabcd" {
		want = append(want, "line "+string(c))
	}
	want = append(want, strings.Repeat("é", tailBytes/2))
	if diff := cmp.Diff(want, keep.lines()); diff != "" {
		t.Error(diff)
	}
}
