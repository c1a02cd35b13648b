package plain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-project/weir/core/plain"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"two lines\n\tof text é 漢 …":  "two lines\n\tof text é 漢 …",
		"\x1b]0;PWNED\a\x1b[2J":       `\u001b]0;PWNED\u0007\u001b[2J`,
		"over\rprint\b\x00\x7f\v":     `over\u000dprint\u0008\u0000\u007f\u000b`,
		"\u009b31m\u0085":             `\u009b31m\u0085`,
		"a\u202eb\u202a\u2066\u2069":  `a\u202eb\u202a\u2066\u2069`,
		"\u200e\u200f\u061c":          `\u200e\u200f\u061c`,
		"\u2028\u2029":                `\u2028\u2029`,
		"\x9b31m \xff\xc3":            `\x9b31m \xff\xc3`,
		"\ufffd is a character":       "\ufffd is a character",
		"\xed\xa0\x80 is a surrogate": `\xed\xa0\x80 is a surrogate`,
	} {
		if got := plain.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"one":               "one",
		"a\nb\r\nc\r":       "a; b; c",
		"\n\na\tb\n":        "a b",
		"a\x1b[1A\nverdict": `a\u001b[1A; verdict`,
		"\n":                "",
	} {
		if got := plain.Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		bytes int
		want  string
	}{{"short", 5, "short"}, {"longer", 5, "lo…"}, {"漢漢漢", 8, "漢…"}, {"漢漢", 5, "…"}, {"abc", 0, "…"}} {
		if got := plain.Cut(c.in, c.bytes); got != c.want {
			t.Errorf("%q to %d bytes: %q, want %q", c.in, c.bytes, got, c.want)
		}
	}
}

// FuzzText holds that nothing gets through, that what was made plain stays as it is, and that JSON stays what it was.
func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J\n\t", "\u202e\u2028\xff", "{\"a\": \"\u009b\x7f\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, line := plain.Text(s), plain.Line(s)
		for _, got := range []string{text, line} {
			if !utf8.ValidString(got) {
				t.Errorf("%q is not UTF-8", got)
			}
			for _, r := range got {
				switch {
				case r == '\n' || r == '\t':
				case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029:
					t.Errorf("%q has %U", got, r)
				}
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q is not one line", line)
		}
		if plain.Text(text) != text || plain.Line(line) != line {
			t.Errorf("%q is changed again", text)
		}
		for _, n := range []int{0, 3, 10, 100} {
			if cut := plain.Cut(line, n); len(cut) > max(n, len("…")) || plain.Cut(cut, max(n, len("…"))) != cut || !utf8.ValidString(cut) {
				t.Errorf("%q to %d bytes is %q", line, n, cut)
			}
		}
		var value, again any // a carriage return between tokens is none that encoding/json writes
		if utf8.ValidString(s) && !strings.Contains(s, "\r") && json.Unmarshal([]byte(s), &value) == nil {
			if err := json.Unmarshal([]byte(text), &again); err != nil {
				t.Errorf("%q was JSON, %q is not: %v", s, text, err)
			}
		}
	})
}
