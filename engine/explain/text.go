package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/core/topology"
)

// Text writes the answer for people: the facts, one table for each span of byte counts, then what is to be known beside.
func (a Answer) Text(w io.Writer) error {
	var b strings.Builder
	a.facts(&b)
	a.sizes(&b)
	for _, s := range a.Spans() {
		fmt.Fprintf(&b, "\n%s: %s\n", s.name(), a.Chosen(s.Choices))
		if open := a.undecided(s); len(open) > 0 {
			fmt.Fprintf(&b, "  (or, if what is unknown turns out well: %s)\n", strings.Join(open, ", "))
		}
		a.table(&b, s)
	}
	a.beside(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (a Answer) facts(b *strings.Builder) {
	g := a.Request.Group
	source := a.Topology.Source
	if f := a.Topology.Format; f != "" {
		source += " (" + f + ")"
	}
	if a.Topology.Complete == "no" {
		source += ", incomplete"
	}
	fmt.Fprintf(b, "topology: %s\n", plain.Line(source))
	where := ""
	if len(a.Topology.Devices) > 0 {
		where = " on " + deviceList(a.Topology.Devices)
	}
	if n := g.Hosts(); n > 1 {
		where += fmt.Sprintf(" of each of %d hosts", n)
	}
	fmt.Fprintf(b, "group:    %d %s%s; worst link %s", g.WorldSize(), lo.Ternary(g.WorldSize() == 1, "rank", "ranks"), where, worst(g))
	if len(a.Topology.Devices) > 0 {
		fmt.Fprintf(b, "; full NVLink %s; P2P %s; multicast %s", g.FullNVLink(), g.P2P, g.Multicast)
		if g.P2PDetail != "" {
			fmt.Fprintf(b, "\nP2P:      %s", g.P2PDetail)
		}
	}
	fmt.Fprintf(b, "\nrequest:  %s\n", a.Request.Class)
	if m := a.Model; m != nil {
		fmt.Fprintf(b, "model:    %s, hidden size %d, %d all-reduces a pass\n", m.Name, m.Hidden, m.AllReduces)
	}
	if a.Profile != "weir" && a.Profile != "" {
		fmt.Fprintf(b, "profile:  %s\n", a.Profile)
	}
}

// worst is the slowest link that is known; unknown only if none is.
func worst(g collective.Group) topology.Link {
	var worst topology.Link
	for l := range topology.Pairs(g.Links, g.WorldSize()) {
		if l.Class != topology.Unknown && (worst.Class == topology.Unknown || l.Slower(worst)) {
			worst = l
		}
	}
	return worst
}

// fewSizes is the number of sizes up to which each is listed with its backend; the spans list them in any case.
const fewSizes = 16

func (a Answer) sizes(b *strings.Builder) {
	if len(a.Sizes) == 0 || len(a.Sizes) > fewSizes {
		return
	}
	b.WriteByte('\n')
	for _, n := range a.Sizes {
		who := "no backend serves it"
		if i := a.Decision.Table.Lookup(n.Bytes); i >= 0 {
			who = a.Decision.Answers[i].Backend
		}
		fmt.Fprintf(b, "%s: %s\n", n, who)
	}
}

// deviceList writes device numbers, runs of them shortened: "GPU0 to GPU3, GPU6".
func deviceList(devices []int) string {
	var parts []string
	for i := 0; i < len(devices); {
		j := i
		for j+1 < len(devices) && devices[j+1] == devices[j]+1 {
			j++
		}
		if j-i > 1 {
			parts = append(parts, fmt.Sprintf("GPU%d to GPU%d", devices[i], devices[j]))
		} else {
			parts = append(parts, lo.Map(devices[i:j+1], func(d, _ int) string { return fmt.Sprintf("GPU%d", d) })...)
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// table writes every candidate in the order asked: one row for each reason.
func (a Answer) table(b *strings.Builder, s Span) {
	var raw strings.Builder
	t := tabwriter.NewWriter(&raw, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  BACKEND\tVERDICT\tREASON\tOBSERVED\tREQUIRED\tWOULD ACCEPT IF")
	for i, x := range a.Decision.Answers {
		st := a.state(i, s)
		changes := a.Changes[i]
		for j := range max(1, len(st.reasons), len(changes)) {
			name, verdict := lo.Ternary(j == 0, x.Backend, ""), lo.Ternary(j == 0, st.verdict, "")
			change := lo.NthOrEmpty(changes, j)
			if change != "" && j < len(changes)-1 {
				change += ", and"
			}
			var r [3]string
			if j < len(st.reasons) {
				r = reasonCells(st.reasons[j])
			}
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", name, verdict, r[0], r[1], r[2], change)
		}
	}
	_ = t.Flush() // a strings.Builder does not fail
	for line := range strings.Lines(raw.String()) {
		fmt.Fprintln(b, strings.TrimRight(line, " \n"))
	}
}

func reasonCells(r backend.Reason) [3]string {
	code := string(r.Code)
	if r.Rank != backend.AnyRank {
		code += fmt.Sprintf(" (rank %d)", r.Rank)
	}
	observed := r.Observed
	if r.Text != "" {
		observed = strings.TrimSpace(observed + " (" + r.Text + ")")
	}
	return [3]string{code, observed, r.Required}
}

// beside writes remarks, warnings and findings.
func (a Answer) beside(b *strings.Builder) {
	for i, x := range a.Decision.Answers {
		for _, r := range a.Remarks[i] {
			fmt.Fprintf(b, "\nnote on %s: %s\n", x.Backend, r)
		}
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(b, "\nwarning: %s\n", w)
	}
	Findings(b, a.Findings)
	if a.Assumes != "" {
		fmt.Fprintf(b, "\nThe profile assumes %s.\n", strings.TrimSpace(a.Assumes))
	}
}

// Findings writes findings for people.
func Findings(w io.Writer, all []diagnose.Finding) {
	for _, f := range all {
		fmt.Fprintf(w, "\n%s: %s\n", f.Code, f.Text)
		if f.Do != "" {
			fmt.Fprintf(w, "  do: %s\n", f.Do)
		}
	}
}
