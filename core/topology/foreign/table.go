package foreign

import (
	"fmt"
	"slices"
	"strings"
)

// table is one matrix of a text.
type table struct {
	cols    []label // devices, then NICs; nil without a header
	heads   []token // the words of cols
	tails   []token // the words that head the columns after the matrix, such as "CPU" of "CPU Affinity"
	rows    []row
	title   string // of the other tables of rocm-smi and amd-smi, such as "hops"; "" if there is none
	command string // option of the nvidia-smi command above, such as "-m", "-mp", "-p2p r"; "" if there is none
	legend  legend
	nics    map[string]string // names of devices by those of columns, from the legend
	misfit  bool              // the header did not fit the rows
	guessed bool              // without a header, columns without rows may be NICs, or GPUs whose rows are missing
	figures bool              // cells are figures too
}

// legend is what the legend after a matrix holds.
type legend struct{ sys, node, phb, pxb, pix, nvlink bool }

// ofPaths reports whether it is the legend of `topo -mp`: that of `topo -m` without NV#. People who explain some classes
// in their own words leave out more.
func (l legend) ofPaths() bool { return l.sys && l.node && l.phb && l.pxb && l.pix && !l.nvlink }

// row is one line of a matrix, or what became of one.
type row struct {
	label label
	at    int // place of the label among the words
	cells []token
	tail  []token
	short bool // it ended before its last column

	crowded bool // it has more values after the matrix than columns
}

// header is the head line of a matrix that is to come.
type header struct {
	cols         []label
	heads, tails []token
}

// scanner finds matrices and the lines on single GPUs in a text's words.
type scanner struct {
	src      source
	toks     []token
	i        int
	header   *header
	table    *table
	title    string
	command  string
	sections []section
}

// section is a matrix or the lines on single GPUs, in the order of the text.
type section struct {
	table *table
	info  *info
}

func (s *scanner) run() error {
	for s.i < len(s.toks) && len(s.sections) < maxSections {
		if s.named() {
			if err := s.devices(); err != nil {
				return err
			}
			continue
		}
		if s.table != nil && s.nicRow() {
			if err := s.row(s.i); err != nil {
				return err
			}
			continue
		}
		if !s.single() {
			s.word()
		}
	}
	return nil
}

func (s *scanner) at(i int) token {
	if i < len(s.toks) {
		return s.toks[i]
	}
	return token{}
}

func (s *scanner) named() bool { return deviceLabel(s.toks[s.i].text).device() }

func (s *scanner) nicRow() bool {
	t := s.toks[s.i]
	if c := t.text[len(t.text)-1]; c == '=' || !s.startsRow(s.i) {
		return false
	}
	return s.column(s.table, t.text) >= 0
}

// column is the place of a name among a table's columns; -1 if it is not there.
func (s *scanner) column(t *table, word string) int {
	l := columnLabel(word)
	return slices.IndexFunc(t.cols, func(c label) bool { return l.kind != noLabel && c.kind == l.kind && c.name == l.name })
}

// devices reads what begins with the name of a device: a header, a row, or a mention in a sentence.
func (s *scanner) devices() error {
	end := s.i
	for end < len(s.toks) && deviceLabel(s.toks[end].text).device() {
		end++
	}
	n := end - s.i
	next := s.at(s.firstCell(end - 1))
	figures := (isFigure(next.text) || s.title != "" && isFlag(next.text)) && !next.first && (n > 1 || s.header != nil || s.table != nil && s.table.figures)
	switch {
	case next.text != "" && (isCell(next.text) || figures || s.blankRow(end-1)):
		if n > 1 {
			h := &header{heads: s.toks[s.i : end-1]}
			if h.name(); !repeats(h.cols) && len(h.cols) <= maxColumns {
				s.header = h
			}
		}
		return s.row(end - 1)
	case n > 1 || nicName(next.text).kind != noLabel || next.text == "CPU":
		s.readHeader()
	default:
		s.i = end
	}
	return nil
}

// blankRow reports whether the label at word i begins a row of the matrix before it whose first cell says nothing.
func (s *scanner) blankRow(i int) bool {
	return s.table != nil && !s.table.figures && s.column(s.table, s.toks[i].text) > 0 && !s.at(i+1).first && blank(s.at(i+1).text) && s.cellsFollow(i+1)
}

// row reads the row whose label is at word i and puts it where it belongs.
func (s *scanner) row(i int) error {
	t := s.tableFor(deviceLabel(s.toks[i].text), s.toks[i].text)
	r, next, err := s.cells(t, i)
	if err != nil {
		return err
	}
	if len(t.rows) == 0 && t.cols != nil && !s.fits(t, r, next) {
		t.cols, t.heads, t.tails, t.misfit = nil, nil, nil, true
		if r, next, err = s.cells(t, i); err != nil {
			return err
		}
	}
	ok, err := s.check(t, r)
	if err != nil {
		return err
	}
	if s.i = next; !ok {
		return nil // a sentence that begins like a row
	}
	if i := slices.IndexFunc(t.rows, func(o row) bool { return o.label.name == r.label.name }); i >= 0 {
		if r.short || slices.EqualFunc(t.rows[i].cells, r.cells, func(a, b token) bool { return a.text == b.text }) {
			return nil // several machines of one kind may write between each other's lines
		}
		t = &table{cols: t.cols, heads: t.heads, tails: t.tails, title: t.title, command: t.command, figures: t.figures}
	}
	if len(t.rows) == 0 {
		s.table, s.header, s.title, s.command = t, nil, "", ""
		s.sections = append(s.sections, section{table: t})
	}
	t.rows = append(t.rows, r)
	return nil
}

// tableFor is the table that a row belongs to, a new one if it is the first after its header.
func (s *scanner) tableFor(l label, word string) *table {
	if s.header != nil {
		t := &table{cols: s.header.cols, heads: s.header.heads, tails: s.header.tails, title: s.title, command: s.command}
		t.figures = s.title != ""
		if s.column(t, word) >= 0 {
			return t
		}
	}
	if s.table != nil && (s.table.cols == nil || s.column(s.table, word) >= 0) && (len(s.table.rows) == 0 || s.table.rows[0].label.kind == l.kind || l.kind == nicLabel || l.kind == noLabel) {
		return s.table
	}
	return &table{title: s.title, command: s.command, figures: s.title != ""}
}

// fits reports whether the header that was found is the one of this first row.
func (s *scanner) fits(t *table, r row, next int) bool {
	column := s.column(t, r.label.name)
	if n := s.at(next); len(r.cells) == len(t.cols) && n.text != "" && isCell(n.text) && n.line == r.cells[len(r.cells)-1].line && s.at(next+1).text != "=" {
		return false // more cells than columns
	}
	return column >= len(r.cells) || t.figures || self(cellText(r.cells[column])) || slices.IndexFunc(r.cells, isSelf) != r.label.n
}

func isSelf(t token) bool { return self(cellText(t)) }

func cellText(t token) string { return strings.TrimSuffix(t.text, ",") }

// check reports whether a row of a device has its own cell where it must be; not ok is a sentence, an error a matrix
// that cannot be read.
func (s *scanner) check(t *table, r row) (ok bool, err error) {
	if r.label.kind == nicLabel || r.label.kind == noLabel || t.figures {
		return !t.figures || t.cols != nil, nil
	}
	own := slices.IndexFunc(r.cells, isSelf)
	if t.cols == nil {
		return own >= 0 && (own == r.label.n || r.label.kind == busLabel), nil
	}
	column := s.column(t, r.label.name)
	if own == column || own < 0 && len(r.cells) <= column {
		return true, nil
	}
	if repeated := slices.ContainsFunc(t.rows, func(o row) bool { return o.label.name == r.label.name }); repeated {
		return false, nil
	}
	bad := r.cells[min(column, len(r.cells)-1)]
	return false, s.src.fail(bad.off, fmt.Sprintf("row %s has %q in its own column (number %d) where \"X\" belongs; paste the output again as it was printed",
		r.label.name, cellText(bad), column+1))
}
