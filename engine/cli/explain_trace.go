package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/telemetry"
)

// explainTrace prints the decisions of a trace file.
func (a *app) explainTrace(ctx context.Context, stdin io.Reader, q *question) error {
	if q.format != "text" && q.format != "json" {
		return badFormat(q.format)
	}
	var all []telemetry.Traced
	err := withFile(ctx, stdin, q.trace, maxTraces, func(r io.Reader) (err error) {
		all, err = telemetry.ReadTraces(r)
		return err
	})
	if cut := errors.Is(err, telemetry.ErrCut); cut {
		fmt.Fprintf(a.stderr, "weir: %s; what is before is shown\n", err)
	} else if err != nil {
		return wrong(err)
	}
	if q.format == "json" {
		return explain.Encode(a.stdout, map[string]any{"decisions": append([]telemetry.Traced{}, all...)})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no decision in this file; `weir run` writes one for every request class when telemetry.file is set")
		return err
	}
	for i, t := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := writeTraced(a.stdout, t); err != nil {
			return err
		}
	}
	return nil
}

func writeTraced(w io.Writer, t telemetry.Traced) error {
	var b strings.Builder
	outcome := strings.Join(t.Backends, ", ")
	switch {
	case t.Error != "":
		outcome = "failed: " + t.Error
	case outcome == "":
		outcome = "no backend serves"
	case t.Fallback:
		outcome += " (the fallback is in use)"
	}
	fmt.Fprintf(&b, "%s %s %s %s %s, group %s, %s, worst link %s: %s\n  trace %s of %s, took %s\n",
		t.Time.Format(time.RFC3339), t.Memory, t.DataType, t.Op, t.Mode, t.Group, backend.Count(t.WorldSize, "rank"), t.Link, outcome,
		t.TraceID, t.Service, time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond/10))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  BACKEND\tPLUGIN\tVERDICT\tACCEPTS, OR WHY NOT")
	for _, x := range t.Answers {
		lines := lo.Map(x.Reasons, func(r telemetry.TracedReason, _ int) string { return r.String() })
		if len(lines) == 0 {
			lines = []string{strings.Join(x.Ranges, ", ")}
		}
		for j, line := range lines {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", lo.Ternary(j == 0, x.Backend, ""), lo.Ternary(j == 0, x.Plugin, ""), lo.Ternary(j == 0, x.Verdict, ""), line)
		}
	}
	_ = table.Flush() // a strings.Builder does not fail
	for _, f := range t.Faults {
		where := f.Backend
		if f.Rank >= 0 {
			where += fmt.Sprintf(" on rank %d", f.Rank)
		}
		fmt.Fprintf(&b, "  %s %s failed: %s\n", f.Step, where, f.Error)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
