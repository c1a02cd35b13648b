package foreign

import (
	"bytes"
	"slices"
)

// unquote removes what stands before every line that names a device: a sign of quotation, indentation, the unchanging
// part of a log's stamp. Lines that were broken after they were quoted can only be joined without it.
func (s source) unquote() source {
	lines := bytes.SplitAfter(s.text, []byte{'\n'})
	prefix, named := []byte(nil), 0
	for _, l := range lines {
		at := deviceAt(l)
		if at < 0 {
			continue
		}
		if named++; named == 1 {
			prefix = l[:at]
			continue
		}
		n := 0
		for n < min(len(prefix), at) && prefix[n] == l[n] {
			n++
		}
		prefix = prefix[:n]
	}
	if tag := bytes.IndexByte(prefix, '<'); tag >= 0 && !bytes.HasPrefix(prefix[tag:], []byte("<std")) { // XML
		prefix = prefix[:tag]
	}
	short := bytes.TrimRight(prefix, " \t")
	if len(short) > 0 { // the rest may be indentation, which differs
		prefix = prefix[:min(len(prefix), len(short)+1)]
	} else if slices.ContainsFunc(lines, func(l []byte) bool { return len(bytes.TrimSpace(l)) > 0 && !bytes.HasPrefix(l, prefix) }) {
		return s // not all are indented
	}
	if named < 2 || len(prefix) == 0 || bytes.IndexByte(prefix, '=') >= 0 {
		return s
	}
	out := source{text: make([]byte, 0, len(s.text)), at: make([]int32, 0, len(s.at)), orig: s.orig}
	off := 0
	for _, l := range lines {
		cut := 0
		switch {
		case bytes.HasPrefix(l, prefix):
			cut = len(prefix)
		case len(short) > 0 && bytes.Equal(bytes.TrimRight(l, " \t\n"), short): // an empty line
			cut = len(bytes.TrimSuffix(l, []byte{'\n'}))
		}
		out.text = append(out.text, l[cut:]...)
		out.at = append(out.at, s.at[off+cut:off+len(l)]...)
		off += len(l)
	}
	return out
}

// deviceAt is where a line first names a device; -1 if it does not.
func deviceAt(line []byte) int {
	first := bytes.Index(line, []byte("0000:"))
	for _, name := range [][]byte{[]byte("GPU"), []byte("NPU")} {
		i := bytes.Index(line, name)
		if i >= 0 && i+3 < len(line) && bytes.IndexByte([]byte("0123456789 ["), line[i+3]) >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	return first
}
