package foreign

import (
	"fmt"
	"strings"
)

// cells reads a row whose label is at word i: its cells, over several lines if a terminal or a log broke it, and what
// comes after the matrix.
func (s *scanner) cells(t *table, i int) (r row, next int, err error) {
	r.label, r.at = columnLabel(s.toks[i].text), i
	i = s.firstCell(i)
	t.figures = t.figures || !isCell(s.toks[i].text) && (len(t.rows) == 0 || !blank(s.toks[i].text))
	resumed := i
	for i < len(s.toks) && len(r.cells) < maxColumns && (t.cols == nil || len(r.cells) < len(t.cols)) {
		w := s.toks[i]
		text := cellText(w)
		switch {
		case w.first && i != resumed:
			start, ok := s.goesOn(r, i, func(word string) bool { return isCell(word) || t.figures && (isFigure(word) || isFlag(word)) })
			if !ok {
				return s.ended(t, r, i)
			}
			i, resumed = start, start
		case isCell(text) || t.figures && (isFigure(text) || isFlag(text)) || t.cols != nil && blank(text):
			r.cells = append(r.cells, w)
			i++
		case t.cols == nil || deviceLabel(text).kind != noLabel:
			return s.ended(t, r, i)
		case s.cellsFollow(i) && !(t.figures && t.title == ""):
			return r, i, s.src.fail(w.off, fmt.Sprintf("%q in row %s is no link class; want X, NV#, PIX, PXB, PHB, NODE, SYS or a status such as OK", shorten(w.text), r.label.name))
		default:
			return s.ended(t, r, i)
		}
	}
	return s.ended(t, r, i)
}

func shorten(s string) string {
	if len(s) > 24 {
		return s[:24] + "…"
	}
	return s
}

// longestPrefix is how many words a log is believed to put before each line.
const longestPrefix = 12

// goesOn is where, in a line that begins at word i, a row of the line before goes on with a word of the kind: at its
// beginning or after what a log put before both lines.
func (s *scanner) goesOn(r row, i int, kind func(word string) bool) (int, bool) {
	first := r.at
	for first > 0 && s.toks[first-1].line == s.toks[first].line {
		first--
	}
	for n := min(r.at-first, longestPrefix); n >= 0; n-- {
		j := i + n
		if j < len(s.toks) && s.toks[j].line == s.toks[i].line && kind(cellText(s.toks[j])) && s.at(j+1).text != "=" && s.samePrefix(first, i, n) {
			return j, true
		}
	}
	return 0, false
}

// samePrefix reports whether n words from a and from b are what a log puts before each line.
func (s *scanner) samePrefix(a, b, n int) bool {
	for k := range n {
		x, y := s.at(a+k).text, s.at(b+k).text
		if isCell(x) || deviceLabel(x).kind != noLabel {
			return false
		}
		if x != y && (digits(strings.TrimLeft(x, "[(")) == 0 || digits(strings.TrimLeft(y, "[(")) == 0) {
			return false // only a time or a number may differ
		}
	}
	return true
}

// cellsFollow reports whether cells stand after word i in its line.
func (s *scanner) cellsFollow(i int) bool {
	for j := i + 1; j < len(s.toks) && s.toks[j].line == s.toks[i].line; j++ {
		if deviceLabel(s.toks[j].text).kind != noLabel {
			return false
		}
		if isCell(s.toks[j].text) {
			return true
		}
	}
	return false
}

// isValue reports whether a word may stand in a column after the matrix.
func isValue(word string) bool { return isList(word) || word == "N/A" }

// ended finishes a row whose cells end before word i.
func (s *scanner) ended(t *table, r row, i int) (row, int, error) {
	if t.cols != nil && len(r.cells) < len(t.cols) {
		r.short = true
	}
	limit := 3
	if len(t.cols) > 0 {
		limit = len(t.tails)
	}
	if t.figures || r.label.kind == nicLabel {
		limit = 0
	}
	for i < len(s.toks) && len(r.tail) < limit {
		w := s.toks[i]
		if w.first {
			start, ok := s.goesOn(r, i, isValue)
			if !ok || r.short || !s.valuesOnly(start) {
				break
			}
			i, w = start, s.toks[start]
		}
		if n := len(r.tail); n > 0 && strings.HasSuffix(r.tail[n-1].text, ",") && isList(r.tail[n-1].text+w.text) {
			r.tail[n-1].text += w.text // a list with blanks after its commas
			i++
			continue
		}
		if !isValue(w.text) {
			break
		}
		r.tail = append(r.tail, w)
		i++
	}
	if w := s.at(i); limit > 0 && len(r.tail) == limit && !w.first && isValue(w.text) {
		r.crowded = true
	}
	return r, i, nil
}

// valuesOnly reports whether a line holds nothing but values from word i on.
func (s *scanner) valuesOnly(i int) bool {
	for j := i; j < len(s.toks) && s.toks[j].line == s.toks[i].line; j++ {
		if !isValue(s.toks[j].text) {
			return j > i && (deviceLabel(s.toks[j].text).kind != noLabel || strings.HasPrefix(s.toks[j].text, "Legend"))
		}
	}
	return true
}
