package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/explain"
)

// writeResolved prints the cascade of a request class for people.
func writeResolved(w io.Writer, r agent.Resolved) {
	fmt.Fprintf(w, "\n%s, %s: ", r.Decision.Class, backend.Count(r.WorldSize, "rank"))
	if r.Err != nil {
		fmt.Fprintf(w, "no backend serves\n")
	} else {
		fmt.Fprintf(w, "agreed by all ranks in %s%s\n", r.Took.Round(time.Millisecond/10),
			lo.Ternary(r.From > 0, fmt.Sprintf(", from all-reduce %d on (epoch %d)", r.From, r.Epoch), ""))
	}
	writeCascade(w, r.Decision)
}

// writeCascade prints one row for each candidate, in the order asked.
func writeCascade(w io.Writer, d dispatch.Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  BACKEND\tPLUGIN\tVERDICT\tSERVES, OR WHY NOT")
	for i, a := range d.Answers {
		for j, line := range answerLines(d, i) {
			if j == 0 {
				fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", a.Backend, a.Plugin, a.Verdict.Kind, line)
			} else {
				fmt.Fprintf(t, "  \t\t\t%s\n", line)
			}
		}
	}
	_ = t.Flush() // w is standard output or error: nothing to be done if it is closed
}

// answerLines are what a candidate serves, or its reasons.
func answerLines(d dispatch.Decision, i int) []string {
	v := d.Answers[i].Verdict
	switch v.Kind {
	case backend.Accept:
		if served := d.Served(i); len(served) > 0 {
			return append([]string{explain.RangeList(served)}, reasons(v)...)
		}
		return []string{fmt.Sprintf("nothing: others before it serve its %s", explain.RangeList(v.Ranges))}
	case backend.NotAsked:
		return []string{"others before it serve every size"}
	}
	return reasons(v)
}

func reasons(v backend.Verdict) []string {
	return lo.Map(v.Reasons, func(r backend.Reason, _ int) string { return r.String() })
}
