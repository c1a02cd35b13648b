package discover

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// Describe writes a topology for people: a line for the host, one for every GPU with its links, one for every note.
func Describe(w io.Writer, g topology.Graph) error {
	var b strings.Builder
	if g.Host != (topology.Host{}) {
		fmt.Fprintf(&b, "host: %s, %s, %s\n", lo.CoalesceOrEmpty(g.Host.CPU, "unknown processor"),
			count(g.Host.Cores, "core"), count(g.Host.NUMANodes, "NUMA node"))
	}
	switch {
	case len(g.Devices) > 0:
		fmt.Fprintf(&b, "GPUs: %d\n", len(g.Devices))
		devices(&b, g)
	case g.Complete == topology.Yes:
		b.WriteString("GPUs: none found\n")
	default:
		b.WriteString("GPUs: unknown\n")
	}
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// devices writes one row for each device, with a column for the link to every other if any link is known.
func devices(w io.Writer, g topology.Graph) {
	anyKnown := false
	for l := range topology.Pairs(g.Links, len(g.Devices)) {
		anyKnown = anyKnown || l.Class != topology.Unknown
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if anyKnown {
		fmt.Fprintf(t, "\t%s\n", strings.Join(lo.Map(g.Devices, func(d topology.Device, _ int) string { return label(d) }), "\t"))
	}
	for a, d := range g.Devices {
		row := []string{label(d)}
		if anyKnown {
			for b := range g.Devices {
				row = append(row, lo.TernaryF(a == b, func() string { return "-" }, func() string { return g.Links[a][b].String() }))
			}
		}
		fmt.Fprintln(t, strings.Join(append(row, facts(d)...), "\t"))
	}
	t.Flush() //nolint:errcheck // a strings.Builder does not fail
	if !anyKnown && len(g.Devices) > 1 {
		fmt.Fprintln(w, "links between GPUs: unknown")
	}
}

func label(d topology.Device) string { return fmt.Sprintf("GPU%d", d.Index) }

// facts are the cells that follow a device's links.
func facts(d topology.Device) []string {
	numa := lo.Ternary(d.NUMA == "", "NUMA node unknown", "NUMA node "+d.NUMA)
	capability := lo.Ternary(d.Capability == "", "", "compute "+d.Capability)
	return lo.Compact([]string{d.PCIBusID, numa, capability, d.Name})
}

func count(n int, what string) string {
	switch n {
	case 0:
		return "unknown number of " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
