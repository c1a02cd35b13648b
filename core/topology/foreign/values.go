package foreign

import (
	"regexp"
	"strings"
)

// What attributes of XML may hold. Anything else, such as an entity that nobody has expanded, is passed over: what is shown as an address
// is one.
var (
	pciAddress = regexp.MustCompile(`^([0-9a-f]{1,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-9a-f]$`)
	numaNode   = regexp.MustCompile(`^-?[0-9]{1,5}$`)
	cpuMask    = regexp.MustCompile(`^[0-9A-Fa-f]{1,8}(,[0-9A-Fa-f]{1,8})*$`)
	amdMachine = regexp.MustCompile(`^(gfx)?[0-9a-f]{1,8}(:[a-z]+[+-])*$`)
)

const passedOver = ": it is passed over"

// address is a PCI address in lower case; "" if the text is none.
func address(text string) string {
	if s := strings.ToLower(text); pciAddress.MatchString(s) {
		return s
	}
	return ""
}

// only is a text that has a form; "" if it has not.
func only(form *regexp.Regexp, text string) string {
	if form.MatchString(text) {
		return text
	}
	return ""
}

// oddValues warns of attributes that are passed over for what they hold.
func (r *Reading) oddValues(gpus []gpu) {
	odd := func(e *element, name string, form *regexp.Regexp, want string) {
		if e == nil {
			return
		}
		if v := e.attrs[name]; v != "" && !form.MatchString(strings.ToLower(v)) {
			r.warn("the XML has %s %q, which is no %s"+passedOver, name, v, want)
		}
	}
	for _, g := range gpus {
		odd(g.pci, "busid", pciAddress, "PCI address")
		odd(g.cpu(), "numaid", numaNode, "number of a NUMA node")
		odd(g.cpu(), "affinity", cpuMask, "mask of processors")
		if g.self == nil {
			continue
		}
		odd(g.self, "gcn", amdMachine, "AMD architecture")
		for _, l := range g.self.children {
			if l.direct() {
				odd(l, "target", pciAddress, "PCI address")
			}
		}
	}
}

// direct reports whether an element is a link to another GPU rather than to a switch or a processor.
func (e *element) direct() bool {
	return e.name == "xgmi" || e.name == "nvlink" && !strings.HasPrefix(e.attrs["tclass"], "0x0680")
}

// leadsNowhere reports whether a GPU has a link of which the text does not say to which GPU it is.
func (g gpu) leadsNowhere() bool {
	for _, e := range g.self.children {
		if e.direct() && address(e.attrs["target"]) == "" {
			return true
		}
	}
	return false
}
