package foreign

import "strings"

// affinity is the CPU and NUMA affinity of a row as printed, "" where the text does not show it. sure is false where
// values are there whose columns cannot be told.
func (m matrix) affinity(r *row, src source) (cpu, numa string, sure bool) {
	values := make([]string, len(r.tail))
	for i, t := range r.tail {
		values[i] = strings.TrimSuffix(t.text, ",")
	}
	heads := m.heads3()
	if len(values) == 0 || heads == 0 {
		return "", "", true
	}
	n := len(values)
	// Drivers that have a column for a GPU's own NUMA node print it always; of the others they leave cells empty.
	own := m.heads != nil && heads == 3 && n < 3 && values[n-1] == "N/A"
	if own && n == 1 {
		return "", "", true
	}
	place := m.places(r, values, heads)
	if place == nil || r.crowded {
		return "", "", false
	}
	for i, v := range values {
		switch place[i] {
		case 0:
			cpu = v
		case 1:
			if !own || i < n-1 {
				numa = v
			}
		}
	}
	if m.cutAt(r, cpu) {
		cpu = ""
	}
	return cpu, numa, true
}

// heads3 is the number of columns after the matrix: CPU affinity, NUMA affinity, GPU NUMA id.
func (m matrix) heads3() int {
	if m.heads == nil {
		return 3
	}
	return len(m.tails)
}

// places are the columns of a row's values, counted from that of the CPU affinity; nil if they cannot be told.
func (m matrix) places(r *row, values []string, heads int) []int {
	from := func(first int) []int {
		p := make([]int, len(values))
		for i := range p {
			p[i] = first + i
		}
		return p
	}
	if usual, gap := r.gaps(); gap > 0 {
		if usual > 0 && gap > usual && heads > 1 {
			return from(1) // an empty cell for the CPU affinity
		}
		if usual > 0 {
			return from(0)
		}
	}
	if p := m.aligned(r); p != nil {
		return p
	}
	switch n := len(values); {
	case n >= heads || m.heads == nil && n != 1:
		return from(0)
	case n == 2 && values[1] == "N/A" && !strings.ContainsAny(values[0], ",-"):
		return from(1) // nvidia-smi prints N/A for a NUMA affinity that it does not know, and nothing for no CPU
	case n == 2 || strings.ContainsAny(values[0], ",-"):
		return from(0)
	}
	return nil
}

// gaps are the numbers of cell separators between two cells of a row and before its first value; 0 for blanks.
func (r *row) gaps() (usual, beforeTail int) {
	for i, c := range r.cells {
		if i > 0 && c.cells > 0 && (usual == 0 || c.cells < usual) {
			usual = c.cells
		}
	}
	if usual == 0 && len(r.cells) == 1 {
		usual = r.cells[0].cells
	}
	if r.tail[0].first {
		return 0, 0 // a line end stands before it
	}
	return usual, r.tail[0].cells
}

// aligned are the columns of a row's values by the places at which they stand below the header; nil if the row does
// not stand in the header's columns.
func (m matrix) aligned(r *row) []int {
	if len(m.heads) == 0 || len(r.cells) != len(m.heads) {
		return nil
	}
	for i, c := range r.cells {
		if d := c.col - m.heads[i].col; d < 0 || d > 2 || c.line != r.cells[0].line {
			return nil
		}
	}
	p := make([]int, len(r.tail))
	for i, t := range r.tail {
		p[i] = -1
		for j, h := range m.tails {
			if h.col == t.col && t.line == r.cells[0].line {
				p[i] = j
			}
		}
		if p[i] < 0 || i > 0 && p[i] <= p[i-1] {
			return nil
		}
	}
	return p
}

// cutAt reports whether the list is what a cut left of another row's: the last of a matrix whose rows are missing.
func (m matrix) cutAt(r *row, list string) bool {
	last := &m.rows[len(m.rows)-1]
	if list == "" || last.label.name != r.label.name || len(r.tail) > 1 {
		return false
	}
	if state, _ := m.complete(); state != Cut {
		return false
	}
	for _, o := range m.rows {
		for _, t := range o.tail {
			if len(t.text) > len(list) && strings.HasPrefix(t.text, list) {
				return true
			}
		}
	}
	return false
}
