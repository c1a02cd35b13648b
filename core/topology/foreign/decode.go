package foreign

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// source is a text without what terminals, web pages and logs put into it.
type source struct {
	text []byte
	at   []int32 // at[i] is where byte i of text comes from in the original
	orig []byte
}

// fail is an error at a byte of the cleaned text.
func (s source) fail(offset int, text string) *Error {
	o := len(s.orig)
	if offset < len(s.at) {
		o = int(s.at[offset])
	}
	before := s.orig[:o]
	start := bytes.LastIndexByte(before, '\n') + 1
	return &Error{1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[start:]), text}
}

// decode removes terminal colours (also those whose escape byte was lost or spelled out), control characters and the
// tags of web pages, and turns HTML entities, \t and \n spelled out, line ends of other systems and typographic blanks
// and dashes into what they stand for.
func decode(text []byte) source {
	d := decoder{
		in:     text,
		mail:   bytes.Contains(text, []byte("=09")) || bytes.Contains(text, []byte("=3D")),
		marked: bytes.Count(text, []byte("$\n")) > 2,
		source: source{text: make([]byte, 0, len(text)), at: make([]int32, 0, len(text)), orig: text},
	}
	for d.i < len(d.in) {
		if !d.ordinary() {
			d.step()
		}
	}
	return d.source
}

// ordinary copies the characters that stand for themselves up to the next that may not; false if there is none.
func (d *decoder) ordinary() bool {
	n := d.i
	for n < len(d.in) && (d.in[n] >= ' ' && d.in[n] < 0x7f && strings.IndexByte(`\^[=$&<`, d.in[n]) < 0 || d.in[n] == '\t' || d.in[n] == '\n') {
		d.at = append(d.at, int32(n))
		n++
	}
	d.text = append(d.text, d.in[d.i:n]...)
	done := n > d.i
	d.i = n
	return done
}

type decoder struct {
	source
	in     []byte
	i      int
	mail   bool // quoted-printable, of an e-mail
	marked bool // tabs and line ends are written out, as cat -A does
}

// put writes s for the next n bytes of the input.
func (d *decoder) put(s string, n int) {
	for j := range len(s) {
		d.text, d.at = append(d.text, s[j]), append(d.at, int32(d.i))
	}
	d.i += n
}

func (d *decoder) step() {
	rest := d.in[d.i:]
	switch c := rest[0]; {
	case c == '\r':
		if len(rest) > 1 && rest[1] == '\n' {
			d.i++
			return
		}
		d.put("\n", 1)
	case c == 0x1b || c == '\\' || c == '^' || c == '[':
		d.escape(rest)
	case c == '=' && d.mail || c == '$' && d.marked:
		d.written(rest)
	case c == '&':
		s, n := entity(rest)
		d.put(s, n)
	case c == '<':
		s, n := tag(rest)
		d.put(s, n)
	case c == '\v' || c == '\f':
		d.put("\n", 1)
	case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
		d.i++
	case c < utf8.RuneSelf:
		d.put(string(rest[:1]), 1)
	default:
		r, n := utf8.DecodeRune(rest)
		d.put(plain(r, rest[:n]), n)
	}
}

// written decodes what e-mails and cat -A write for tabs, blanks and line ends.
func (d *decoder) written(rest []byte) {
	switch {
	case bytes.HasPrefix(rest, []byte("=09")):
		d.put("\t", 3)
	case bytes.HasPrefix(rest, []byte("=20")):
		d.put(" ", 3)
	case bytes.HasPrefix(rest, []byte("=3D")):
		d.put("=", 3)
	case bytes.HasPrefix(rest, []byte("=\n")):
		d.i += 2
	case bytes.HasPrefix(rest, []byte("=\r\n")):
		d.i += 3
	case bytes.HasPrefix(rest, []byte("$\n")) || bytes.HasPrefix(rest, []byte("$\r\n")) || len(rest) == 1 && rest[0] == '$':
		d.i++
	default:
		d.put(string(rest[:1]), 1)
	}
}

// spelled are ways in which the escape byte is written out, and other escapes of strings in logs.
var spelled = []struct{ from, to string }{
	{`\u001b`, "\x1b"},
	{`\u001B`, "\x1b"},
	{`\x1b`, "\x1b"},
	{`\x1B`, "\x1b"},
	{`\033`, "\x1b"},
	{`\e[`, "\x1b["},
	{"^[[", "\x1b["},
	{"^I", "\t"},
	{`\\u003c`, "<"},
	{`\\u003e`, ">"},
	{`\\u0026`, "&"},
	{`\u0026`, "&"},
	{`\\u001b`, "\x1b"},
	{`\\r\\n`, "\n"},
	{`\\n`, "\n"},
	{`\\t`, "\t"},
	{`\\\"`, `'`}, // of a string within a string
	{`\r\n`, "\n"},
	{`\n`, "\n"},
	{`\r`, ""},
	{`\t`, "\t"},
	{`\"`, `'`},
	{`\|`, "|"},
	{`\_`, "_"},
	{`\u0009`, "\t"},
	{`\u003c`, "<"},
	{`\u003e`, ">"},
}

func (d *decoder) escape(rest []byte) {
	if rest[0] == 0x1b || rest[0] == '[' {
		d.bare(rest)
		return
	}
	head := string(rest[:min(len(rest), 8)])
	for _, s := range spelled {
		if !strings.HasPrefix(head, s.from) {
			continue
		}
		if s.to[:min(1, len(s.to))] == "\x1b" {
			d.i += len(s.from) + sequence(rest[len(s.from):], s.to[1:])
			return
		}
		d.put(s.to, len(s.from))
		return
	}
	d.put(string(rest[:1]), 1)
}

// bare is an escape sequence, or one of a colour without its escape byte.
func (d *decoder) bare(rest []byte) {
	switch {
	case rest[0] == 0x1b:
		d.i += 1 + sequence(rest[1:], "")
	case colour(rest) > 0:
		d.i += colour(rest)
	default:
		d.put(string(rest[:1]), 1)
	}
}

// sequence is the length of what follows an escape byte; begun is the part of it that was read already.
func sequence(rest []byte, begun string) int {
	s := rest
	if begun == "" {
		if len(s) == 0 {
			return 0
		}
		switch s[0] {
		case ']': // a title, up to its end
			if end := bytes.IndexAny(s[:min(len(s), 200)], "\a\x1b\n"); end >= 0 {
				return end
			}
			return 1
		case '(', ')':
			return min(2, len(s))
		case '[':
		default:
			return 1
		}
		s = s[1:]
	}
	n := len(rest) - len(s)
	for i, c := range s[:min(len(s), 32)] {
		if c >= '@' && c <= '~' {
			return n + i + 1
		}
		if c < ' ' {
			return n + i
		}
	}
	return n
}

// colour is the length of "[4m" and the like, the sequence of a colour that lost its escape byte; 0 if it is none.
func colour(rest []byte) int {
	for i := 1; i < min(len(rest), 12); i++ {
		switch c := rest[i]; {
		case c == 'm' || c == 'K' && i < 3:
			return i + 1
		case c != ';' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// plain is the ASCII that stands for a character; b is the character.
func plain(r rune, b []byte) string {
	switch {
	case r == 0xa0 || r >= 0x2000 && r <= 0x200a || r == 0x202f || r == 0x205f || r == 0x3000:
		return " "
	case r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x2064 || r == 0xfeff || r == 0xad || r == 0x9b:
		return ""
	case r == 0x2028 || r == 0x2029 || r == 0x85:
		return "\n"
	case r >= 0x2010 && r <= 0x2015 || r == 0x2212:
		return "-"
	case r == '│' || r == '┃' || r == '¦' || r == '║' || r == '｜':
		return "|"
	case r == '“' || r == '”' || r == '‘' || r == '’':
		return `"`
	case r == '→' || r == '␉':
		return "\t"
	case r == '✕' || r == '×' || r == '✖':
		return "X"
	case r == utf8.RuneError:
		return "?"
	}
	return string(b)
}
