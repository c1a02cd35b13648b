package foreign

import (
	"fmt"
	"strings"
)

// cells reads a row whose label is at word i: its cells, over several lines if a terminal or a log broke it, and what
// comes after the matrix.
func (s *scanner) cells(t *table, i int) (r row, next int, err error) {
	r.label = deviceLabel(s.toks[i].text)
	if r.label.kind == noLabel {
		r.label = nicName(s.toks[i].text)
	}
	t.figures = t.figures || !isCell(s.toks[i+1].text)
	for i++; i < len(s.toks) && (t.cols == nil || len(r.cells) < len(t.cols)); {
		w := s.toks[i]
		text := cellText(w)
		switch {
		case w.first && len(r.cells) > 0 && s.mend(&r, i):
			i++
		case w.first && s.lineContinues(t, i) > i:
			i = s.lineContinues(t, i)
		case w.first && s.lineContinues(t, i) < 0:
			return s.ended(t, r, i)
		case isCell(text) || t.figures && isFigure(text) || t.cols != nil && blank(text):
			r.cells = append(r.cells, w)
			i++
		case w.last && s.brokenHere(t, i):
			w.text += s.toks[s.lineContinues(t, i+1)].text
			r.cells = append(r.cells, w)
			i = s.lineContinues(t, i+1) + 1
		case t.cols == nil || deviceLabel(text).kind != noLabel:
			return s.ended(t, r, i)
		case s.cellsFollow(i):
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

// mend joins the last cell with the word at i where a line end broke a number in two: NV1 and 8.
func (s *scanner) mend(r *row, i int) bool {
	last := &r.cells[len(r.cells)-1]
	w := s.toks[i].text
	if !last.last || digits(w) != len(w) {
		return false
	}
	if _, ok := links(last.text); !ok {
		return false
	}
	if _, ok := links(last.text + w); !ok {
		return false
	}
	last.text += w
	last.end = s.toks[i].end
	last.last = s.toks[i].last
	return true
}

// brokenHere reports whether the word at i and the first of the next line are the halves of a cell.
func (s *scanner) brokenHere(t *table, i int) bool {
	if i+1 >= len(s.toks) {
		return false
	}
	next := s.lineContinues(t, i+1)
	if next < 0 {
		next = i + 1
	}
	return next == i+1 && isCell(s.toks[i].text+s.toks[next].text) || next > i+1 && isCell(s.toks[i].text+s.toks[next].text)
}

// lineContinues is where, in a line that begins at word i, a row of the line before goes on: the words after what a log
// put before each line. It is -1 if the line is something else.
func (s *scanner) lineContinues(t *table, i int) int {
	line := s.toks[i].line
	end := i
	for end < len(s.toks) && s.toks[end].line == line {
		end++
	}
	start := end
	for start > i {
		text := cellText(s.toks[start-1])
		if deviceLabel(text).kind != noLabel && start < end && isCell(s.toks[start].text) {
			return -1 // the next row
		}
		if !(isCell(text) || t.figures && isFigure(text) || isValue(text) || start-1 == i && half(text)) {
			break
		}
		start--
	}
	if start == end || start > i && deviceLabel(s.toks[start-1].text).kind != noLabel {
		return -1
	}
	return start
}

// half reports whether a word may be the second half of a cell.
func half(word string) bool {
	for class := range classes {
		if len(word) < len(class) && strings.HasSuffix(class, word) {
			return true
		}
	}
	return len(word) > 1 && word[0] == 'V' && digits(word[1:]) == len(word)-1
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
	for i < len(s.toks) && len(r.tail) <= limit {
		w := s.toks[i]
		if w.first && !s.tailContinues(t, r, i, limit) {
			break
		}
		if n := len(r.tail); n > 0 && s.sameList(r.tail[n-1], w, limit-n) {
			r.tail[n-1].text += w.text
			r.tail[n-1].last = w.last
			i++
			continue
		}
		if !isValue(strings.TrimSuffix(w.text, "-")) || len(r.tail) == limit {
			break
		}
		r.tail = append(r.tail, w)
		i++
	}
	return r, i, nil
}

// tailContinues reports whether the line that begins at word i holds nothing but values that a row still lacks.
func (s *scanner) tailContinues(t *table, r row, i, limit int) bool {
	if t.cols == nil || r.short || len(r.tail) >= limit && !s.toks[i-1].last {
		return false
	}
	for j := i; j < len(s.toks) && s.toks[j].line == s.toks[i].line; j++ {
		if !isValue(strings.TrimLeft(s.toks[j].text, "-,")) {
			return false
		}
	}
	return true
}

// sameList reports whether two words are one list that a line end or a blank broke in two.
func (s *scanner) sameList(a, b token, free int) bool {
	if strings.HasSuffix(a.text, ",") || strings.HasSuffix(a.text, "-") {
		return isList(a.text + b.text)
	}
	if !a.last || !b.first || a.text == "N/A" || !isList(a.text+b.text) {
		return false
	}
	if strings.HasPrefix(b.text, ",") || strings.HasPrefix(b.text, "-") {
		return true
	}
	values := 0
	for j := range s.toks[b.index(s.toks):] {
		w := s.toks[b.index(s.toks)+j]
		if w.line != b.line {
			break
		}
		values++
	}
	return values > free
}

// index is the place of a word among the words of its text.
func (t token) index(toks []token) int {
	lo, hi := 0, len(toks)
	for lo < hi {
		if m := (lo + hi) / 2; toks[m].off < t.off {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}
