package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
)

// Matrix is how one backend would fare on several machines, by number of ranks.
type Matrix struct {
	Backend backend.Info
	Plugin  string
	Devices []int // of the groups, by number; nil: the first ones
	Rows    []Row // at least one, with at least one answer
}

// Row is one machine: an answer with the backend alone for each number of ranks.
type Row struct {
	Topology string
	About    string
	Answers  []Answer
}

// Text writes a table: a row for each machine, a column for each number of ranks.
func (m Matrix) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "backend:  %s of plugin %s, a %s\nrequest:  %s\n", m.Backend.Name, m.Plugin, m.Backend.Kind, m.Rows[0].Answers[0].Request.Class)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range m.Backend.Requirements.Fields() {
		for i, line := range f.Needs {
			fmt.Fprintf(t, "  %s\t%s\n", lo.Ternary(i == 0, f.Name, ""), line)
		}
	}
	_ = t.Flush() // a strings.Builder does not fail
	b.WriteByte('\n')
	worlds := m.worlds()
	t.Init(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "TOPOLOGY")
	for _, n := range worlds {
		fmt.Fprintf(t, "\t%d RANKS", n)
	}
	fmt.Fprintln(t)
	for _, r := range m.Rows {
		fmt.Fprint(t, strings.TrimPrefix(r.Topology, "preset "))
		for _, n := range worlds {
			fmt.Fprint(t, "\t", r.cell(n))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	b.WriteString("\nByte sizes: accepted. Codes: declined, see docs/reasons.md. ?: the topology alone does not tell what is named there;\n" +
		"say what is known of it, as in --p2p verified. " + m.groups() + " `weir explain --topo NAME --ranks N` has every detail.\n")
	class := m.Rows[0].Answers[0].Request.Class
	fmt.Fprintf(&b, "All cells are about %s and %s; --dtype and --op ask about others.\n", class.DataType, class.Op)
	_, err := io.WriteString(w, b.String())
	return err
}

// groups says which GPUs were asked about.
func (m Matrix) groups() string {
	if m.Devices == nil {
		return "Groups are of the machine's first GPUs."
	}
	return "The group is of the GPUs " + strings.Join(lo.Map(m.Devices, func(d, _ int) string { return strconv.Itoa(d) }), ", ") + "."
}

// worlds are the numbers of ranks of any row, ascending.
func (m Matrix) worlds() []int {
	all := lo.FlatMap(m.Rows, func(r Row, _ int) []int {
		return lo.Map(r.Answers, func(a Answer, _ int) int { return a.Request.Group.WorldSize() })
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// cell is a verdict in few words; "-" if the machine has not so many GPUs.
func (r Row) cell(world int) string {
	a, ok := lo.Find(r.Answers, func(a Answer) bool { return a.Request.Group.WorldSize() == world })
	if !ok {
		return "-"
	}
	v := a.Decision.Answers[0].Verdict
	switch v.Kind {
	case backend.Accept:
		return RangeList(a.Decision.Served(0))
	case backend.Unknown:
		return "? " + strings.Join(lo.Uniq(lo.Map(v.Reasons, func(r backend.Reason, _ int) string { return unknownFact(r) })), ", ")
	}
	return strings.Join(lo.Uniq(lo.Map(v.Reasons, func(r backend.Reason, _ int) string { return string(r.Code) })), " ")
}

// unknownFact names the fact: the ? says that it is unknown, unless what is known of it stands before.
func unknownFact(r backend.Reason) string {
	if strings.Contains(r.Observed, ",") {
		return r.Observed
	}
	return strings.TrimSuffix(r.Observed, " unknown")
}

// MatrixJSON is a matrix as programs read it.
type MatrixJSON struct {
	Backend  string       `json:"backend"`
	Plugin   string       `json:"plugin"`
	Kind     string       `json:"kind"`
	Request  requestJSON  `json:"request"`
	Machines []machineRow `json:"machines"`
}

type machineRow struct {
	Topology string     `json:"topology"`
	About    string     `json:"about,omitempty"`
	Groups   []groupRow `json:"groups"`
}

type groupRow struct {
	Group groupJSON `json:"group"`
	candidateJSON
}

// JSON is the matrix for programs.
func (m Matrix) JSON() MatrixJSON {
	x := MatrixJSON{Backend: m.Backend.Name, Plugin: m.Plugin, Kind: string(m.Backend.Kind), Request: m.Rows[0].Answers[0].JSON().Request}
	for _, r := range m.Rows {
		x.Machines = append(x.Machines, machineRow{r.Topology, r.About, lo.Map(r.Answers, func(a Answer, _ int) groupRow {
			j := a.JSON()
			return groupRow{j.Group, j.Candidates[0]}
		})})
	}
	return x
}
