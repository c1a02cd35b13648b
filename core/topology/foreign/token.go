package foreign

import "strings"

// token is a word of the text.
type token struct {
	text  string
	off   int  // byte in the cleaned text
	end   int  // byte after it
	line  int  // of the cleaned text, from 0
	col   int  // display column in its line, tabs expanded
	cells int  // cell separators (tabs, bars of a table) between it and the word before it in the line
	first bool // in its line
	last  bool // in its line
}

// tokenize splits a text into words at blanks, quotes and bars, and where cells were glued together.
func tokenize(text string) []token {
	toks := make([]token, 0, len(text)/4)
	for line, off := 0, 0; off < len(text); line++ {
		end := strings.IndexByte(text[off:], '\n')
		if end < 0 {
			end = len(text) - off
		}
		n := len(toks)
		toks = words(toks, text[off:off+end], off, line)
		if len(toks) > n {
			toks[n].first, toks[len(toks)-1].last = true, true
		}
		off += end + 1
	}
	return toks
}

func delimiter(c byte) bool {
	return c == ' ' || c == '\t' || c == '|' || c == '`' || c == '"' || c == '\'' || c == '*' || c == ';'
}

func words(toks []token, line string, off, number int) []token {
	bars := strings.Count(line, "|") >= 3 // a table; fewer are a prefix or prose
	commas := commaSeparated(line)
	cells, col, quoted := 0, 0, false
	for i := 0; i < len(line); {
		c := line[i]
		if delimiter(c) || c == ',' && commas && !quoted {
			if c == '\t' || c == '|' && bars || c == ',' {
				cells++
			}
			quoted = quoted != (c == '"')
			col++
			if c == '\t' {
				col = (col + 7) / 8 * 8
			}
			i++
			continue
		}
		start := i
		for i < len(line) && !delimiter(line[i]) && !(line[i] == ',' && commas && !quoted) {
			i++
		}
		begin := col
		several := glued(line[start:i])
		for start < i {
			part := line[start:i]
			if several {
				part = part[:piece(part)]
			}
			toks = append(toks, token{text: part, off: off + start, end: off + start + len(part), line: number, col: begin, cells: cells})
			start, begin, cells = start+len(part), begin+len(part), 0
		}
		col = begin
	}
	return toks
}

// commaSeparated reports whether commas stand between names or cells of a line rather than in lists of numbers.
func commaSeparated(line string) bool {
	letter := func(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == ',' || c == '"' }
	found := 0
	for i := range len(line) {
		if line[i] != ',' {
			continue
		}
		before, after := strings.TrimRight(line[:i], " "), strings.TrimLeft(line[i+1:], " ")
		if len(before) > 0 && letter(before[len(before)-1]) || len(after) > 0 && letter(after[0]) {
			found++
		}
	}
	return found >= 2
}

// glued reports whether a word is several labels, cells or lists without anything between them, such as "PXBNODE",
// "GPU6GPU7" or "SYS0-31".
func glued(word string) bool {
	if len(word) < 2 || len(word) > 4096 || word[0] >= '0' && word[0] <= '9' && !strings.ContainsAny(word, "NX") {
		return false
	}
	for rest := word; rest != ""; {
		n := piece(rest)
		if n == 0 || n == len(word) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// pieces are what may be glued together, longer ones before those that they begin with.
var pieces = []string{
	"HCCS_SW", "HCCS", "XGMI", "PCIE", "NODE", "SELF", "N/A", "PIX", "PXB", "PHB", "SYS", "SOC", "SIO", "CNS", "GNS", "TNS", "CPU", "NUMA",
	"OK", "NS", "DR", "X",
}

// piece is the length of the label, cell or list that a word begins with; 0 if it begins with none.
func piece(s string) int {
	for _, label := range []string{"GPU", "NPU", "NIC", "NV", "Phy-ID"} {
		if strings.HasPrefix(s, label) {
			if n := digits(s[len(label):]); n > 0 {
				return len(label) + nvDigits(label, s[len(label):], n)
			}
		}
	}
	for _, p := range pieces {
		if strings.HasPrefix(s, p) {
			return len(p)
		}
	}
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '-' || s[n] == ',') {
		n++
	}
	if n > 0 && isList(s[:n]) {
		return n
	}
	return 0
}

// nvDigits is how many of n digits after NV are the number of links, where a list of CPUs may be glued to them: the only
// split that leaves a list that ascends, else all.
func nvDigits(label, s string, n int) int {
	if label != "NV" || n == len(s) || s[n] != '-' && s[n] != ',' {
		return n
	}
	split := 0
	for k := 1; k < min(n, 3); k++ {
		rest := s[k:]
		end := 0
		for end < len(rest) && (rest[end] >= '0' && rest[end] <= '9' || rest[end] == '-' || rest[end] == ',') {
			end++
		}
		if isList(rest[:end]) {
			if split != 0 {
				return n
			}
			split = k
		}
	}
	if split == 0 {
		return n
	}
	return split
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// isList reports whether a word is a set of CPUs or NUMA nodes such as "0-31,64-95", each part of which ascends.
func isList(s string) bool {
	if s == "" {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(s, ","), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, ok := number(first)
		if !ok {
			return false
		}
		if isRange {
			if b, ok := number(last); !ok || b < a {
				return false
			}
		}
	}
	return true
}

// number reads a number of at most six digits, without leading zeros.
func number(s string) (int, bool) {
	if n := digits(s); n == 0 || n != len(s) || n > 6 || n > 1 && s[0] == '0' {
		return 0, false
	}
	v := 0
	for i := range len(s) {
		v = v*10 + int(s[i]-'0')
	}
	return v, true
}
