package foreign

func (h *header) name() {
	h.cols = h.cols[:0]
	for _, t := range h.heads {
		h.cols = append(h.cols, columnLabel(t.text))
	}
}

// readHeader reads names of devices and NICs, also over several lines, and the heads of the columns after them.
func (s *scanner) readHeader() {
	h := &header{}
	devices := true
	for s.i < len(s.toks) {
		if s.toks[s.i].first && len(h.heads) > 0 && !s.continueHeader() {
			break
		}
		t := s.toks[s.i]
		if t.text == "CPU" {
			s.readTails(h)
			break
		}
		l := columnLabel(t.text)
		if l.kind == noLabel || l.device() && !devices || l.device() && s.startsRow(s.i) {
			break
		}
		devices = devices && l.device()
		h.heads = append(h.heads, t)
		s.i++
	}
	if h.name(); repeats(h.cols) || len(h.cols) > maxColumns {
		return // a sentence, or nonsense
	}
	s.header = h
}

func repeats(cols []label) bool {
	seen := make(map[string]bool, len(cols))
	for _, c := range cols {
		if seen[c.name] {
			return true
		}
		seen[c.name] = true
	}
	return false
}

// firstCell is where the first cell of a row would be whose label is at word i.
func (s *scanner) firstCell(i int) int {
	if i+1 < len(s.toks) && s.toks[i+1].first {
		if j, ok := s.goesOn(row{at: i}, i+1, isCell); ok {
			return j
		}
	}
	return i + 1
}

func (s *scanner) startsRow(i int) bool {
	next := s.at(s.firstCell(i))
	return next.text != "" && isCell(next.text)
}

// continueHeader moves to where a header goes on in a line that a terminal or a log has begun, if it does.
func (s *scanner) continueHeader() bool {
	line := s.toks[s.i].line
	end := s.i
	for end < len(s.toks) && s.toks[end].line == line && s.toks[end].text != "CPU" {
		end++
	}
	start := end
	for start > s.i && columnLabel(s.toks[start-1].text).kind != noLabel {
		start--
	}
	tails := end < len(s.toks) && s.toks[end].line == line
	if start == end && !tails || end > s.i && s.startsRow(end-1) {
		return false
	}
	s.i = start
	return true
}

// tailWords are the words of the columns after a matrix.
var tailWords = []string{"CPU", "NUMA", "GPU", "ID", "Affinity"}

// readTails reads "CPU Affinity", "NUMA Affinity", "GPU NUMA ID".
func (s *scanner) readTails(h *header) {
	for s.i < len(s.toks) {
		t, next := s.toks[s.i], s.at(s.i+1)
		switch {
		case t.text == "CPU", t.text == "GPU" && (next.text == "NUMA" || t.last):
			h.tails = append(h.tails, t)
			s.i++
		case t.text == "NUMA":
			if n := len(h.tails); n == 0 || h.tails[n-1].text != "GPU" { // else of "GPU NUMA ID"
				h.tails = append(h.tails, t)
			}
			s.i++
		case t.first && s.tailsGoOn():
		case t.text == "Affinity", t.text == "ID":
			s.i++
		default:
			return
		}
	}
}

// tailsGoOn moves behind what a log put before the rest of a header, if the line is that.
func (s *scanner) tailsGoOn() bool {
	for j := s.i + 1; j < min(len(s.toks), s.i+12) && !s.toks[j].first; j++ {
		switch s.toks[j].text {
		case "NUMA", "Affinity":
			s.i = j
			return true
		case "GPU":
			if s.at(j+1).text == "NUMA" {
				s.i = j
				return true
			}
		}
	}
	return false
}
