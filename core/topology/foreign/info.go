package foreign

import (
	"strings"
)

// info is the lines on single GPUs that several tools print: names, UUIDs, NVLinks, NUMA nodes.
type info struct {
	gpus   []gpuInfo
	status bool // the states of NVLinks are among them
	numa   bool // and NUMA nodes
	mig    bool // and parts of divided GPUs
}

type gpuInfo struct {
	index      int
	name, uuid string
	told       bool // how many NVLinks are up
	up, down   int
	numa       string
}

// single reads "GPU 0: NVIDIA … (UUID: …)", "GPU[0] : (Topology) Numa Node: 0" and the lines below the first; it
// reports whether there was one.
func (s *scanner) single() bool {
	n, words, ok := s.singleGPU()
	if ok {
		g := s.gpu(n)
		s.i += words
		s.describe(g)
		return true
	}
	in := s.lastInfo()
	if in == nil || len(in.gpus) == 0 {
		return false
	}
	g := &in.gpus[len(in.gpus)-1]
	switch t := s.toks[s.i].text; {
	case t == "Link" && s.i+2 < len(s.toks) && digits(s.toks[s.i+1].text) > 0 && strings.HasSuffix(s.toks[s.i+1].text, ":"):
		return s.link(in, g)
	case strings.HasSuffix(t, "NVML:") && s.at(s.i+1).text == "Unable":
		for j := s.i; j < min(len(s.toks), s.i+16); j++ {
			if s.toks[j].text == "links" && s.at(j+1).text == "are" { // "all links are inActive"
				in.status, g.told = true, true
				s.i = j + 1
				return true
			}
		}
	case strings.HasPrefix(t, "MIG-") || t == "MIG" && strings.Contains(s.at(s.i+1).text, "g."):
		in.mig = true
		s.i++
		return true
	}
	return false
}

// singleGPU reads the number of a GPU that a line is about, and how many words name it.
func (s *scanner) singleGPU() (n, words int, ok bool) {
	t := s.toks[s.i].text
	if i := strings.LastIndex(t, "GPU"); i > 0 && detached(t[:i]) {
		t = t[i:]
	}
	if inside, found := strings.CutPrefix(t, "GPU["); found {
		inside, tail, closed := strings.Cut(inside, "]")
		n, ok := number(inside)
		colon := tail == ":" || s.at(s.i+1).text == ":"
		return n, 1, ok && closed && colon && n < maxDevices
	}
	if t != "GPU" || s.i+1 >= len(s.toks) {
		return 0, 0, false
	}
	w := s.toks[s.i+1].text
	if n, ok := number(strings.TrimSuffix(w, ":")); ok && n < maxDevices {
		return n, 2, w[len(w)-1] == ':' || s.at(s.i+2).text == ":"
	}
	return 0, 0, false
}

func (s *scanner) lastInfo() *info {
	if n := len(s.sections); n > 0 {
		return s.sections[n-1].info
	}
	return nil
}

// gpu is the entry of a GPU in the section of lines on GPUs that the text is in.
func (s *scanner) gpu(index int) *gpuInfo {
	in := s.lastInfo()
	if in == nil {
		in = &info{}
		s.sections = append(s.sections, section{info: in})
	}
	for i := range in.gpus {
		if in.gpus[i].index == index {
			return &in.gpus[i]
		}
	}
	in.gpus = append(in.gpus, gpuInfo{index: index})
	return &in.gpus[len(in.gpus)-1]
}

// describe reads the rest of a line on a GPU.
func (s *scanner) describe(g *gpuInfo) {
	line := s.at(s.i).line
	var name []string
	for s.i < len(s.toks) && s.toks[s.i].line == line && len(name) < 10 {
		t := s.toks[s.i].text
		switch {
		case t == ":" && len(name) == 0:
			s.i++
			continue
		case t == "(Topology)":
			s.i++
			s.numa(g)
			return
		case strings.HasPrefix(t, "(UUID:"):
			id := strings.TrimPrefix(t, "(UUID:")
			if s.i++; id == "" {
				id = s.at(s.i).text
				s.i++
			}
			g.uuid = strings.TrimRight(id, ")")
			g.name = strings.Join(name, " ")
			return
		case t == "GPU" || t == "Link" || deviceLabel(t).kind != noLabel:
			g.name = strings.Join(name, " ")
			return
		}
		name = append(name, t)
		s.i++
	}
	g.name = strings.Join(name, " ")
}

// numa reads "Numa Node: 0" and "Numa Affinity: 0".
func (s *scanner) numa(g *gpuInfo) {
	if s.at(s.i).text != "Numa" || s.i+2 >= len(s.toks) {
		return
	}
	what, value := s.toks[s.i+1].text, s.toks[s.i+2].text
	if what != "Node:" && what != "Affinity:" || s.toks[s.i+2].line != s.toks[s.i+1].line {
		return
	}
	if what == "Node:" || g.numa == "" {
		g.numa = value
	}
	s.lastInfo().numa = true
	s.i += 3
}

// link reads "Link 0: 14.062 GB/s" or "Link 0: <inactive>".
func (s *scanner) link(in *info, g *gpuInfo) bool {
	value := s.toks[s.i+2].text
	rate := strings.TrimRight(value, "0123456789") == "" || digits(value) > 0 && strings.Count(value, ".") == 1
	switch {
	case strings.Contains(strings.ToLower(value), "inactive"):
		g.down++
	case rate:
		g.up++
	default:
		return false
	}
	in.status, g.told = true, true
	s.i += 3
	return true
}
