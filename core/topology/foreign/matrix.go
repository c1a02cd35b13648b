package foreign

import (
	"slices"
	"strconv"

	"github.com/weir-project/weir/core/topology"
)

// matrix is a table whose columns are all known.
type matrix struct {
	*table
	devices []label // the first columns
	nics    []label // the others
	byName  map[string]*row
}

// newMatrix names the columns of a table, which without a header takes the rows.
func newMatrix(t *table) matrix {
	if t.cols == nil {
		t.nameColumns()
	}
	m := matrix{table: t, byName: make(map[string]*row, len(t.rows))}
	for _, c := range t.cols {
		if c.device() {
			m.devices = append(m.devices, c)
		} else {
			m.nics = append(m.nics, c)
		}
	}
	for i := range t.rows {
		m.byName[t.rows[i].label.name] = &t.rows[i]
	}
	return m
}

// nameColumns gives columns names where the text has no header: a device is in the column of its own cell, and NVLink
// only leads to devices.
func (t *table) nameColumns() {
	width, devices, nvlink := 0, 0, false
	own := map[int]label{}
	for _, r := range t.rows {
		width = max(width, len(r.cells))
		if r.label.device() {
			i := slices.IndexFunc(r.cells, isSelf)
			own[i] = r.label
			devices = max(devices, i+1)
		}
		for i, c := range r.cells {
			if _, ok := links(c.text); ok {
				nvlink = true
				devices = max(devices, i+1)
			}
		}
	}
	for i := range width {
		l, known := own[i]
		switch {
		case i < devices && !known:
			l = label{kind: t.rows[0].label.kind, n: i, name: "GPU" + strconv.Itoa(i)}
		case i >= devices:
			l = label{kind: nicLabel, n: i - devices}
		}
		t.cols = append(t.cols, l)
	}
	for i := range t.rows {
		t.rows[i].short = len(t.rows[i].cells) < width
	}
	last := &t.rows[len(t.rows)-1]
	last.short = last.short || len(last.tail) == 0 && (len(t.rows) == 1 || len(t.rows[0].tail) > 0)
	t.guessed = width > devices && !nvlink
}

// row is the row of a label; nil if it is missing.
func (m matrix) row(l label) *row { return m.byName[l.name] }

// cell is what the text shows for a row and a column; ok is false if it does not.
func (m matrix) cell(from label, column int) (token, bool) {
	r := m.row(from)
	if r == nil || column >= len(r.cells) {
		return token{}, false
	}
	return r.cells[column], true
}

// link is the link from a device to a column; the zero Link if the text does not show it.
func (m matrix) link(src source, from label, column int) topology.Link {
	c, ok := m.cell(from, column)
	if !ok {
		return topology.Link{}
	}
	text := cellText(c)
	if n, ok := links(text); ok {
		if m.doubtful(src, from, column) {
			return topology.Link{}
		}
		return topology.Link{Class: topology.NVLink, Count: n}
	}
	return topology.Link{Class: classes[text]}
}

// doubtful reports whether a cell may have been cut: NV1 may be what is left of NV18 at the end of a matrix.
func (m matrix) doubtful(src source, from label, column int) bool {
	r := m.row(from)
	last := r == &m.rows[len(m.rows)-1]
	return (r.short || last) && len(r.tail) == 0 && column == len(r.cells)-1 && (r.short || len(m.tails) > 0 || r.cells[column].end == len(src.text)) &&
		!delimited(src.text, r.cells[column].end)
}

// delimited reports whether a cell separator, not a line end, stands at a byte.
func delimited(text []byte, i int) bool {
	return i < len(text) && text[i] != '\n' && delimiter(text[i])
}

// complete says how much of the matrix is there, and which rows of devices are missing or short.
func (m matrix) complete() (Completeness, []label) {
	var missing []label
	for _, d := range m.devices {
		if r := m.row(d); r == nil || r.short {
			missing = append(missing, d)
		}
	}
	if len(missing) > 0 {
		return Cut, missing
	}
	shown, whole := 0, 0
	for _, n := range m.nics {
		if r := m.row(n); r != nil && n.name != "" {
			shown++
			if !r.short {
				whole++
			}
		}
	}
	if shown > 0 && whole < len(m.nics) {
		return GPURows, nil
	}
	return Whole, nil
}
