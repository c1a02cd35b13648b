package foreign

import (
	"bytes"
	"slices"
	"strings"
)

// narrowest is the least width of a terminal that is believed to have broken lines.
const narrowest = 32

// otherWords are words besides names and cells that matter whole.
var otherWords = []string{"N/A", "Weight", "Hops", "Type", "between", "TYPE", "HOPS", "ACCESS", "TABLE:"}

// unwrap joins lines that a terminal broke at its width, in the middle of words. The width shows where the two halves of
// a name, a cell or a list stand at the end of one line and the beginning of the next.
func (s source) unwrap() source {
	lines := bytes.SplitAfter(s.text, []byte{'\n'})
	var widths []int
	for i := 1; i < len(lines); i++ {
		if w := width(lines[i-1]); w >= narrowest && !slices.Contains(widths, w) && broken(lines[i-1], lines[i]) {
			widths = append(widths, w)
		}
	}
	if len(widths) == 0 {
		return s
	}
	joined := source{text: make([]byte, 0, len(s.text)), at: make([]int32, 0, len(s.at)), orig: s.orig}
	off := 0
	for i, l := range lines {
		keep := len(l)
		if i+1 < len(lines) && slices.Contains(widths, width(l)) && (!beginsRow(lines[i+1]) || broken(l, lines[i+1])) {
			keep = len(bytes.TrimSuffix(l, []byte{'\n'}))
		}
		joined.text = append(joined.text, l[:keep]...)
		joined.at = append(joined.at, s.at[off:off+keep]...)
		off += len(l)
	}
	return joined
}

// width is the width of a line as a terminal shows it.
func width(line []byte) int {
	col := 0
	for _, c := range bytes.TrimSuffix(line, []byte{'\n'}) {
		if col++; c == '\t' {
			col = (col + 7) / 8 * 8
		}
	}
	return col
}

// broken reports whether a word was broken between two lines.
func broken(a, b []byte) bool {
	a = bytes.TrimSuffix(a, []byte{'\n'})
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	if bytes.Count(a, []byte{'"'})%2 == 1 && bytes.IndexByte(a, '<') >= 0 && bytes.IndexByte(b, '"') >= 0 {
		return true // in an attribute of XML
	}
	x, y := string(a[blankBefore(a):]), string(b[:blankAfter(b)])
	if x == "" || y == "" {
		return false
	}
	switch xy := x + y; {
	case isList(xy) && strings.ContainsAny(xy, ",-"):
		return !isList(x) || !isList(y) || x[len(x)-1] == ',' || strings.ContainsAny(x, ",-") && strings.ContainsAny(y, ",-")
	case strings.HasPrefix(xy, "GPU-") && len(strings.TrimSuffix(xy, ")")) == len("GPU-00000000-0000-0000-0000-000000000000"):
		return true
	case isCell(xy) || slices.Contains(otherWords, xy) || slices.Contains(tailWords, xy):
		return !(isCell(x) && isCell(y))
	default:
		return deviceLabel(xy).name == xy && (deviceLabel(x).kind == noLabel || digits(y) == len(y) && !beginsRow(b[len(y):]))
	}
}

func blankBefore(line []byte) int {
	i := len(line)
	for i > 0 && !delimiter(line[i-1]) {
		i--
	}
	return i
}

func blankAfter(line []byte) int {
	i := 0
	for i < len(line) && line[i] != '\n' && !delimiter(line[i]) {
		i++
	}
	return i
}

// beginsRow reports whether a line is empty or begins as lines on devices do: with a name and a cell, or a number.
func beginsRow(line []byte) bool {
	f := bytes.Fields(line[:min(len(line), 200)])
	if len(f) == 0 {
		return true
	}
	label := columnLabel(string(f[0]))
	if bytes.HasPrefix(f[0], []byte("GPU[")) || string(f[0]) == "GPU" && len(f) > 1 && digits(string(f[1])) > 0 {
		return true
	}
	return len(f) > 1 && label.kind != noLabel && (isCell(string(f[1])) || label.device() && isFigure(string(f[1])))
}
