package foreign

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// rocmKey is a key that counts in what `rocm-smi --showtopo --json` prints: an object "card0", "card1", … for each GPU and
// one "system" with the pairs, of which each stands once. That is what showHwTopology and formatMatrixToJSON of
// rocm_smi.py print (ROCm/rocm_smi_lib at 7504cd0, 2024-10-22), and what Slurm's tools read, some with all keys in small
// letters. encoding/json is of no help: texts are cut, and have other things around them.
var rocmKey = regexp.MustCompile(`(?i)"(?:(card)(\d+)|(system)|\(topology\) (link type|link accessibility|weight|hops) between drm devices (\d+) and (\d+)|` +
	`(?:\(topology\) )?(numa node|numa affinity|card series|gfx version))"\s*:\s*(?:"([^"]*)"|\{)`)

// readROCmJSON reads the machines whose topology rocm-smi printed as JSON.
func readROCmJSON(src source) []Reading {
	var all []Reading
	m := rocmMachine{}
	for _, key := range rocmKey.FindAllStringSubmatch(string(src.text), -1) {
		if !m.take(key) {
			all = m.append(all)
			m = rocmMachine{}
			m.take(key)
		}
	}
	return m.append(all)
}

// rocmMachine is what one JSON says, by key and the numbers in it.
type rocmMachine struct {
	values  map[rocmFact]string
	devices map[int]bool
	card    int  // in whose object the text is
	told    bool // a fact of the topology was there
	beyond  bool // there are more GPUs than are read
}

type rocmFact struct {
	what string
	a, b int // of a pair; of a single GPU both are its number
}

// take keeps one key; false means that it was there already, and begins the next machine.
func (m *rocmMachine) take(key []string) bool {
	if m.values == nil {
		m.values, m.devices, m.card = map[rocmFact]string{}, map[int]bool{}, -1
	}
	f := rocmFact{}
	switch what := strings.ToLower(key[1] + key[3] + key[4] + key[7]); {
	case what == "system":
		m.card = -1
		return true
	case what == "card":
		n, ok := m.device(key[2])
		if m.card = n; !ok {
			m.card = -1
			return true
		}
		f = rocmFact{what, n, n}
	case key[4] != "":
		a, okA := m.device(key[5])
		b, okB := m.device(key[6])
		if !okA || !okB {
			return true
		}
		m.told = true
		f = rocmFact{what, min(a, b), max(a, b)}
	case m.card < 0:
		return true
	default:
		m.told = m.told || strings.HasPrefix(what, "numa")
		f = rocmFact{what, m.card, m.card}
	}
	if _, again := m.values[f]; again {
		return false
	}
	m.values[f] = strings.TrimSpace(key[8])
	m.devices[f.a], m.devices[f.b] = true, true
	return true
}

func (m *rocmMachine) device(digits string) (int, bool) {
	n, ok := number(digits)
	m.beyond = m.beyond || ok && n >= maxDevices
	return n, ok && n < maxDevices
}

// append adds the reading of the machine, if the JSON was of a topology.
func (m *rocmMachine) append(all []Reading) []Reading {
	if !m.told {
		return all
	}
	r := Reading{Formats: []string{ROCmSMI}, Complete: Whole}
	numbers := slices.Sorted(maps.Keys(m.devices))
	for _, n := range numbers {
		of := func(what string) string { return m.values[rocmFact{what, n, n}] }
		d := topology.Device{Index: n, Name: of("card series"), NUMA: of("numa node")}
		if d.NUMA == "" || d.NUMA == "-1" {
			d.NUMA = of("numa affinity")
		}
		if gfx := of("gfx version"); strings.HasPrefix(gfx, "gfx") {
			d.Capability = gfx
		}
		r.Graph.Devices = append(r.Graph.Devices, d)
	}
	m.pairs(&r, numbers)
	b := builder{Reading: &r}
	if m.beyond {
		r.capped()
	}
	b.finish()
	return append(all, r)
}

// pairs fills links and access; each pair is printed once for both directions.
func (m *rocmMachine) pairs(r *Reading, numbers []int) {
	n := len(numbers)
	r.Graph.Links = square[topology.Link](nil, n)
	var missing, untold []string
	for i, a := range numbers {
		for k, b := range numbers[i+1:] {
			j := i + 1 + k
			kind, ok := m.values[rocmFact{"link type", a, b}]
			l := topology.Link{Class: classes[kind]}
			switch {
			case !ok:
				missing = append(missing, fmt.Sprintf("GPU%d and GPU%d", a, b))
			case l.Class == topology.Unknown:
				untold = append(untold, fmt.Sprintf("GPU%d and GPU%d", a, b))
			}
			r.Graph.Links[i][j], r.Graph.Links[j][i] = l, l
			if status, ok := accessible[m.values[rocmFact{"link accessibility", a, b}]]; ok {
				if r.Graph.Peers == nil {
					r.Graph.Peers = square[topology.Peer](nil, n)
				}
				set(&r.Graph.Peers[i][j], "", status)
				set(&r.Graph.Peers[j][i], "", status)
			}
		}
	}
	if len(untold) > 0 {
		r.warn("the link of %s is not printed as PCIE or XGMI: the driver could not tell it", first(untold, "pair"))
	}
	if len(missing) > 0 {
		r.Complete, r.more = Cut, true
		r.warn("the JSON has no link type of %s: it is cut, or of another option; paste the whole output of `rocm-smi --showtopo --json`", first(missing, "pair"))
	}
}

// accessible are the words of rocm-smi and amd-smi for whether one GPU has access to another.
var accessible = map[string]topology.Status{
	"True": topology.StatusOK, "ENABLED": topology.StatusOK, "False": topology.StatusNS, "DISABLED": topology.StatusNS,
}
