// Package plain makes what others say fit to be shown: no order to a terminal, no line of its own, no more than there is room for.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text has every character that gives orders to a terminal or to whoever lays out text written as an escape that JSON knows too:
// control characters but newline and tab, line and paragraph separators, and those that turn the direction of writing. Bytes
// that are not UTF-8 are written in hexadecimal.
func Text(s string) string {
	bad := firstBad(s)
	if bad < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:bad])
	for i := bad; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case givesOrders(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Line is Text on one line: a semicolon stands where another began.
func Line(s string) string {
	if strings.ContainsAny(s, "\n\r\t") {
		lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
		s = strings.ReplaceAll(strings.Join(lines, "; "), "\t", " ")
	}
	return Text(s)
}

// more stands where something was left out.
const more = "…"

// Cut is at most so many bytes of a text, and ends in … if that is not all.
func Cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	bytes = max(0, bytes-len(more))
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes] + more
}

// firstBad is where the first character is that Text changes; -1 for none.
func firstBad(s string) int {
	for i, r := range s {
		if givesOrders(r) {
			return i
		}
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

func givesOrders(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
