package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/p2p"
)

// words are how the matrix shows what was found.
var words = map[topology.P2P]string{
	topology.P2PVerified: "ok", topology.P2PFailed: "FAILED", topology.P2PNone: "driver says no", topology.P2PUnknown: "not tested",
}

// text writes the matrix, what is wrong with single directions, and what to do.
func (x examination) text(w io.Writer) error {
	var b strings.Builder
	g := x.machine
	switch n := len(g.Devices); {
	case n == 0 && g.Complete == topology.Yes:
		b.WriteString("no GPU on this machine: there is nothing to prove\n")
	case n == 0:
		b.WriteString("no GPU can be seen from here: there is nothing to prove\n")
	case n == 1:
		fmt.Fprintf(&b, "one GPU (%s): there is no other to reach\n", g.Devices[0].Name)
	default:
		x.matrix(&b)
		x.faults(&b)
		fmt.Fprintf(&b, "\nIOMMU: %s\nACS:   %s\n", x.iommu(), x.acs())
	}
	if len(g.Devices) < 2 {
		for _, n := range g.Notes {
			fmt.Fprintf(&b, "note: %s\n", n)
		}
	}
	explain.Findings(&b, x.findings)
	_, err := io.WriteString(w, b.String())
	return err
}

func (x examination) matrix(b *strings.Builder) {
	devices := x.machine.Devices
	fmt.Fprintf(b, "each GPU (row) wrote into the memory of each other (column):\n\n")
	cells := map[p2p.Direction]string{}
	for _, r := range x.results {
		cells[r.Direction] = words[r.Found]
	}
	var raw strings.Builder
	t := tabwriter.NewWriter(&raw, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\t"+strings.Join(lo.Map(devices, func(d topology.Device, _ int) string { return gpu(d) }), "\t"))
	for from, d := range devices {
		row := lo.Map(devices, func(_ topology.Device, to int) string {
			return lo.Ternary(from == to, "same GPU", cells[p2p.Direction{From: from, To: to}])
		})
		fmt.Fprintf(t, "%s\t%s\t%s\n", gpu(d), strings.Join(row, "\t"), strings.TrimSpace(d.PCIBusID+"  "+d.Name))
	}
	_ = t.Flush() // a strings.Builder does not fail
	for line := range strings.Lines(raw.String()) {
		fmt.Fprintln(b, strings.TrimRight(line, " \n"))
	}
}

// faults says of every direction that is not good why.
func (x examination) faults(b *strings.Builder) {
	for i, r := range lo.Filter(x.results, func(r p2p.Result, _ int) bool { return r.Found != topology.P2PVerified }) {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "%s to %s (%s): %s: %s\n", gpu(x.machine.Devices[r.From]), gpu(x.machine.Devices[r.To]), x.link(r.Direction), words[r.Found], r.Why)
	}
}

func (x examination) link(d p2p.Direction) string {
	l := topology.At(x.machine.Links, d.From, d.To)
	if l.Class == topology.Unknown {
		return "link unknown"
	}
	return l.String()
}

func (x examination) iommu() string {
	switch o := x.obstacles; {
	case o.Translates():
		return fmt.Sprintf("translates the addresses of GPUs (%s)", o.IOMMU)
	case o.IOMMU == diagnose.PassThrough:
		return "passes the addresses of GPUs through"
	}
	return "off, or not to be seen from here"
}

func (x examination) acs() string {
	var parts []string
	if n := len(x.obstacles.Redirecting); n > 0 {
		parts = append(parts, fmt.Sprintf("redirects at %s", strings.Join(x.obstacles.Redirecting, ", ")))
	}
	if n := x.obstacles.Unread; n > 0 {
		parts = append(parts, fmt.Sprintf("unknown at %d bridges (only root may read it)", n))
	}
	if len(parts) == 0 {
		return "off on the bridges that are to be seen from here"
	}
	return strings.Join(parts, "; ")
}

func gpu(d topology.Device) string { return fmt.Sprintf("GPU%d", d.Index) }

// examinationJSON is an examination for programs.
type examinationJSON struct {
	Devices     []doctorDeviceJSON    `json:"devices"`
	Directions  []doctorDirectionJSON `json:"directions"`
	IOMMU       string                `json:"iommu"` // off, identity, or how it translates
	Redirecting []string              `json:"acs_redirects_at"`
	Unread      int                   `json:"acs_unknown_bridges"`
	Findings    []doctorFindingJSON   `json:"findings"`
	OK          bool                  `json:"ok"` // nothing failed, and nothing could not be tried
	Notes       []string              `json:"notes"`
}

type doctorDeviceJSON struct {
	Index    int    `json:"index"`
	UUID     string `json:"uuid"`
	PCIBusID string `json:"pci_bus_id"`
	Name     string `json:"name"`
}

type doctorDirectionJSON struct {
	From  int    `json:"from"` // by index
	To    int    `json:"to"`
	Link  string `json:"link"`
	Found string `json:"found"` // verified, failed, none (the driver says no), unknown (not tested)
	Why   string `json:"why"`
}

type doctorFindingJSON struct {
	Code diagnose.Code `json:"code"`
	Text string        `json:"text"`
	Do   string        `json:"do"`
}

func (x examination) json(w io.Writer) error {
	devices := x.machine.Devices
	return encodeJSON(w, examinationJSON{
		Devices: lo.Map(devices, func(d topology.Device, _ int) doctorDeviceJSON {
			return doctorDeviceJSON{d.Index, d.UUID, d.PCIBusID, d.Name}
		}),
		Directions: lo.Map(x.results, func(r p2p.Result, _ int) doctorDirectionJSON {
			return doctorDirectionJSON{devices[r.From].Index, devices[r.To].Index, topology.At(x.machine.Links, r.From, r.To).String(), r.Found.String(), r.Why}
		}),
		IOMMU: lo.CoalesceOrEmpty(x.obstacles.IOMMU, "off"), Redirecting: append([]string{}, x.obstacles.Redirecting...), Unread: x.obstacles.Unread,
		Findings: lo.Map(x.findings, func(f diagnose.Finding, _ int) doctorFindingJSON { return doctorFindingJSON(f) }),
		OK:       x.tried.Failed+x.tried.Untried == 0, Notes: append([]string{}, x.machine.Notes...),
	})
}
