package foreign

import "strings"

// word reads one word that is no part of a matrix: of a command above it, of a title, of a legend.
func (s *scanner) word() {
	t := s.toks[s.i].text
	switch {
	case t == "topo" || strings.HasSuffix(t, "-smi") && s.at(s.i+1).text == "topo":
		s.topoCommand()
	case t == "between":
		s.rocmTitle()
	case strings.TrimSuffix(t, ":") == "TABLE" && s.i > 0:
		s.amdTitle()
	case s.table != nil && strings.HasPrefix(t, "NIC") && t[len(t)-1] == ':':
		s.legendNIC(t)
	case s.table != nil:
		s.legendWord(t)
	}
	s.i++
}

// topoCommand keeps the options of a `topo` command for the matrix after it.
func (s *scanner) topoCommand() {
	j := s.i + 1
	if s.at(j).text == "topo" {
		j++
	}
	option := strings.TrimRight(s.at(j).text, ":.,)")
	switch option {
	case "-m", "--matrix":
		s.command = "-m"
	case "-mp", "--matrix_pci", "-pm":
		s.command = "-mp"
	case "-p2p", "--p2p":
		s.command = "-p2p " + strings.TrimRight(s.at(j+1).text, ":.,)")
	}
}

// rocmTitle reads "Weight between two GPUs" and the like.
func (s *scanner) rocmTitle() {
	for j := max(0, s.i-2); j < s.i; j++ {
		switch strings.ToLower(s.toks[j].text) {
		case "weight":
			s.title = "weight"
		case "hops":
			s.title = "hops"
		case "type":
			s.title = "link"
		case "accessibility", "access":
			s.title = "access"
		}
	}
}

// amdTitle reads "LINK TYPE TABLE:" and the like.
func (s *scanner) amdTitle() {
	if s.title = strings.ToLower(s.toks[s.i-1].text); s.title == "type" {
		s.title = "link"
	}
}

// legendNIC reads "NIC0: mlx5_0".
func (s *scanner) legendNIC(t string) {
	l, device := deviceLabel(t), nicName(s.at(s.i+1).text)
	if l.kind != nicLabel || device.kind == noLabel || len(s.table.nics) >= maxColumns {
		return
	}
	if s.table.nics == nil {
		s.table.nics = map[string]string{}
	}
	s.table.nics[l.name] = device.name
	s.i++
}

// legendWord notes what the legend of the last matrix explains: `topo -mp` has no NV# in it.
func (s *scanner) legendWord(t string) {
	switch {
	case t == "NV#" || strings.HasPrefix(t, "NV#="):
		s.table.legend.nvlink = true
	case s.at(s.i+1).text != "=":
	case t == "SYS":
		s.table.legend.sys = true
	case t == "NODE":
		s.table.legend.node = true
	case t == "PHB":
		s.table.legend.phb = true
	case t == "PXB":
		s.table.legend.pxb = true
	case t == "PIX":
		s.table.legend.pix = true
	}
}
