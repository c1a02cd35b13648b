// Package topo shows a topology to people: as text and as a picture.
package topo

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// Text writes the matrix with the link classes, what holds for the whole machine, and the warnings.
func Text(w io.Writer, r foreign.Reading) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s\n", strings.Join(r.Formats, ", "), devices(r), incomplete(r))
	if g := r.Graph; g.Host != (topology.Host{}) {
		fmt.Fprintf(&b, "host: %s\n", host(g.Host))
	}
	if len(r.Graph.Devices) > 0 {
		b.WriteByte('\n')
		matrix(&b, r)
		b.WriteByte('\n')
		facts(&b, r)
	}
	if len(r.Warnings) > 0 {
		b.WriteString("\nwarnings:\n")
		for _, line := range r.Warnings {
			fmt.Fprintf(&b, "  - %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// incomplete says what is missing.
func incomplete(r foreign.Reading) string {
	switch {
	case r.Complete == foreign.GPURows:
		return "; the rows of the NICs are cut"
	case r.Complete == foreign.Whole || len(r.Graph.Devices) == 0:
		return ""
	case slices.Contains(foreign.Formats(), r.Format()):
		return "; the text is cut"
	}
	return "; there may be more"
}

func host(h topology.Host) string {
	parts := []string{cmp.Or(h.CPU, "unknown processor")}
	if h.Cores > 0 {
		parts = append(parts, plural(h.Cores, "core"))
	}
	if h.NUMANodes > 0 {
		parts = append(parts, plural(h.NUMANodes, "NUMA node"))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func devices(r foreign.Reading) string {
	switch n := len(r.Graph.Devices); {
	case n > 0:
		return plural(n, prefix(r))
	case r.Graph.Complete == topology.Yes && len(r.Warnings) == 0:
		return "no GPU"
	}
	return "GPUs unknown"
}

// prefix is what the devices are called.
func prefix(r foreign.Reading) string {
	if r.Format() == foreign.NPUSMI || r.Worst().Class == topology.HCCS {
		return "NPU"
	}
	return "GPU"
}

// Name is what a device is called in a reading, such as GPU0.
func Name(r foreign.Reading, i int) string {
	return prefix(r) + strconv.Itoa(r.Graph.Devices[i].Index)
}

// column is what is known of each device besides its links.
type column struct {
	head  string
	value func(i int) string
}

// matrix writes a row for each device: its link to every other, and what is known of it. A column that no device has a
// value for is left out.
func matrix(w io.Writer, r foreign.Reading) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	links := r.Links()
	columns := []column{
		{"CPUs", func(i int) string { return r.Graph.Devices[i].CPUAffinity }},
		{"NUMA", func(i int) string { return r.Graph.Devices[i].NUMA }},
		{"NVLinks up", func(i int) string {
			if i < len(r.NVLinks) && r.NVLinks[i] >= 0 {
				return strconv.Itoa(r.NVLinks[i])
			}
			return ""
		}},
		{"compute", func(i int) string { return r.Graph.Devices[i].Capability }},
		{"bus id", func(i int) string { return r.Graph.Devices[i].PCIBusID }},
		{"name", func(i int) string { return r.Graph.Devices[i].Name }},
	}
	all := lo.Range(len(r.Graph.Devices))
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(all, func(i int) bool { return c.value(i) != "" })
	})
	head := []string{""}
	for i := range all {
		head = append(head, Name(r, i))
	}
	for _, c := range columns {
		head = append(head, c.head)
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for a := range all {
		row := []string{Name(r, a)}
		for b := range all {
			row = append(row, cell(links, a, b))
		}
		for _, c := range columns {
			row = append(row, cmp.Or(c.value(a), "-"))
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush() //nolint:errcheck // a strings.Builder does not fail
}

// cell is the link of two devices as the matrix shows it.
func cell(links [][]topology.Link, a, b int) string {
	switch l := links[a][b]; {
	case a == b:
		return "X"
	case l.Class == topology.Unknown:
		return "?"
	default:
		return l.String()
	}
}

// facts writes what holds for the whole machine.
func facts(w io.Writer, r foreign.Reading) {
	fmt.Fprintf(w, "full NVLink:    %s\n", r.FullNVLink())
	fmt.Fprintf(w, "NVLink groups:  %s\n", groups(r))
	fmt.Fprintf(w, "worst link:     %s\n", r.Worst())
	fmt.Fprintf(w, "peer access:    %s\n", peers(r))
	if p := proofs(r); p != "" {
		fmt.Fprintf(w, "proved:         %s\n", p)
	}
	if m := r.Graph.Multicast; m != topology.NotKnown {
		fmt.Fprintf(w, "multicast:      %s\n", m)
	}
}

func groups(r foreign.Reading) string {
	sets := lo.Map(r.NVLinkGroups(), func(set []int, _ int) string {
		return "{" + strings.Join(lo.Map(set, func(i, _ int) string { return strconv.Itoa(r.Graph.Devices[i].Index) }), ",") + "}"
	})
	if len(sets) == 0 && r.FullNVLink() == topology.NotKnown && len(r.Graph.Devices) > 1 {
		return "unknown"
	}
	return cmp.Or(strings.Join(sets, " "), "none")
}

// peers sums up the evidence of peer-to-peer access: for every capability that was asked for, how many directions have
// each status.
func peers(r foreign.Reading) string {
	capabilities := []struct {
		name string
		of   func(topology.Peer) topology.Status
	}{
		{"", func(p topology.Peer) topology.Status { return p.Any }},
		{"read ", func(p topology.Peer) topology.Status { return p.Read }},
		{"write ", func(p topology.Peer) topology.Status { return p.Write }},
		{"NVLink ", func(p topology.Peer) topology.Status { return p.NVLink }},
		{"atomics ", func(p topology.Peer) topology.Status { return p.Atomics }},
		{"PCI ", func(p topology.Peer) topology.Status { return p.PCI }},
	}
	var said []string
	for _, c := range capabilities {
		counts := map[topology.Status]int{}
		total := 0
		for a, row := range r.Graph.Peers {
			for b, p := range row {
				if s := c.of(p); a != b && s != "" {
					counts[s]++
					total++
				}
			}
		}
		for _, s := range slices.Sorted(maps.Keys(counts)) {
			said = append(said, fmt.Sprintf("%s%s in %d of %d directions", c.name, s, counts[s], total))
		}
	}
	if len(said) == 0 {
		return r.Graph.P2P.String()
	}
	return r.Graph.P2P.String() + " (" + strings.Join(said, "; ") + ")"
}

// proofs sums up what was found when access was tried; "" if it was not.
func proofs(r foreign.Reading) string {
	good, total := 0, 0
	var bad []string
	for a, row := range r.Graph.Peers {
		for b, p := range row {
			if a == b || p.Proof == topology.P2PUnknown {
				continue
			}
			if total++; p.Proof == topology.P2PVerified {
				good++
				continue
			}
			bad = append(bad, fmt.Sprintf("%s to %s %s", Name(r, a), Name(r, b), p.Proof))
		}
	}
	if total == 0 {
		return ""
	}
	s := fmt.Sprintf("data arrived right in %d of %d directions", good, total)
	if len(bad) > 0 {
		s += ": " + strings.Join(bad, ", ")
	}
	return s
}
