package foreign

import (
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// labelKind is what a row or a column stands for.
type labelKind int

const (
	noLabel  labelKind = iota
	gpuLabel           // GPU0
	npuLabel           // NPU0, or Phy-ID0 where a part has two dies
	busLabel           // 0000:0d:00.0
	nicLabel           // NIC0, mlx5_0
)

// label is the name of a row or a column.
type label struct {
	kind labelKind
	n    int    // number of a GPU, NPU or NIC
	name string // as printed, without what was glued to its front
}

func (l label) device() bool { return l.kind == gpuLabel || l.kind == npuLabel || l.kind == busLabel }

// deviceLabel reads the name of a device, also behind a prefix that ends in a sign, such as "host:GPU0".
func deviceLabel(word string) label {
	s := strings.TrimRight(word, ":,")
	n := len(s)
	for n > 0 && s[n-1] >= '0' && s[n-1] <= '9' {
		n--
	}
	if n < 3 || n == len(s) {
		return label{}
	}
	if s[n-1] == '.' {
		return busID(s)
	}
	if phy := n - len("Phy-ID"); phy >= 0 && s[phy:n] == "Phy-ID" {
		v, ok := number(s[n:])
		if !ok || v >= maxDevices || !detached(s[:phy]) {
			return label{}
		}
		return label{kind: npuLabel, n: v, name: s[phy:]}
	}
	kind := noLabel
	switch s[n-3 : n] {
	case "GPU":
		kind = gpuLabel
	case "NPU":
		kind = npuLabel
	case "NIC":
		kind = nicLabel
	}
	v, ok := number(s[n:])
	if kind == noLabel || !ok || v >= maxDevices || !detached(s[:n-3]) {
		return label{}
	}
	return label{kind: kind, n: v, name: s[n-3:]}
}

// detached reports whether a prefix does not run into the word after it; "4m" is what is left of a colour.
func detached(prefix string) bool {
	if prefix == "" || strings.HasSuffix(prefix, "4m") || strings.HasSuffix(prefix, "0m") || strings.HasSuffix(prefix, "1m") {
		return true
	}
	c := prefix[len(prefix)-1]
	return !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c == '=' || c == '/')
}

// busID reads a PCI address such as "0000:0d:00.0" or "00000000:0D:00.0", also behind a prefix.
func busID(s string) label {
	for _, n := range []int{16, 12} {
		if len(s) < n {
			continue
		}
		id := s[len(s)-n:]
		if id[n-2] != '.' || id[n-5] != ':' || id[n-8] != ':' || !detached(s[:len(s)-n]) {
			continue
		}
		hex := func(c rune) bool {
			return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		}
		if strings.IndexFunc(id[:n-8]+id[n-7:n-5]+id[n-4:n-2]+id[n-1:], func(c rune) bool { return !hex(c) }) < 0 {
			return label{kind: busLabel, name: strings.ToLower(id)}
		}
	}
	return label{}
}

// nicName reads the name of a network device in a header: letters first, a digit in it, nothing else.
func nicName(word string) label {
	s := strings.TrimRight(word, ",")
	if l := deviceLabel(s); l.kind == nicLabel {
		return l
	}
	digit := false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && (c == '_' || c == '-' || c == ':' || c == '.'):
		default:
			return label{}
		}
	}
	if !digit || s[0] >= '0' && s[0] <= '9' || s[len(s)-1] == ':' || len(s) > 32 || isCell(s) {
		return label{}
	}
	return label{kind: nicLabel, name: s}
}

// columnLabel reads the name of a column of a matrix.
func columnLabel(word string) label {
	if l := deviceLabel(word); l.kind != noLabel {
		return l
	}
	return nicName(word)
}

// classes are the cells of matrices of links.
var classes = map[string]topology.Class{
	"PIX": topology.PIX, "PXB": topology.PXB, "PHB": topology.PHB, "NODE": topology.NODE, "SYS": topology.SYS,
	"SOC":  topology.SYS, // the name of SYS before driver 384
	"HCCS": topology.HCCS, "HCCS_SW": topology.HCCS, "SIO": topology.SIO, "XGMI": topology.XGMI, "PCIE": topology.PCIe,
}

// statuses are the cells of matrices of peer-to-peer access.
var statuses = map[string]topology.Status{
	"OK": topology.StatusOK, "CNS": topology.StatusCNS, "GNS": topology.StatusGNS, "TNS": topology.StatusTNS, "NS": topology.StatusNS,
	"DR": topology.StatusDR, "U": topology.StatusUnknown,
}

// self is the cell of a device with itself.
func self(word string) bool { return word == "X" || word == "SELF" }

// links is the number of links in a cell such as "NV18".
func links(word string) (int, bool) {
	if !strings.HasPrefix(word, "NV") {
		return 0, false
	}
	n, ok := number(word[2:])
	return n, ok && n > 0 && n < 1000
}

// blank reports whether a cell says that its tool does not know.
func blank(word string) bool {
	switch word {
	case "N/A", "NA", "?", "-", "--", "ERR", "ERR!", "ERROR", "UNKNOWN", "Unknown", "n/a":
		return true
	}
	return false
}

// isCell reports whether a word is a cell of a matrix of links or of peer-to-peer access.
func isCell(word string) bool {
	word = strings.TrimSuffix(word, ",")
	if _, ok := classes[word]; ok || self(word) {
		return true
	}
	if _, ok := statuses[word]; ok {
		return true
	}
	_, ok := links(word)
	return ok
}

// isFlag reports whether a word is a cell of amd-smi's tables of capabilities: true, false, coherent or not.
func isFlag(word string) bool { return word == "T" || word == "F" || word == "C" || word == "NC" }

// isFigure reports whether a word is a cell of the other tables of rocm-smi and amd-smi.
func isFigure(word string) bool {
	if blank(word) {
		return true
	}
	switch word {
	case "True", "False", "ENABLED", "DISABLED", "SELF":
		return true
	}
	for i := range len(word) {
		if c := word[i]; (c < '0' || c > '9') && (i == 0 || c != '.' && c != '-' && c != ',') {
			return false
		}
	}
	return word != ""
}
