package cli

import (
	"fmt"
	"runtime"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/engine/plot"
)

// print prints what has not been printed while it was measured.
func (j *benchJob) print(start, end time.Time) error {
	if j.flags.format == "json" {
		return encodeJSON(j.app.stdout, j.document(start, end))
	}
	out := j.app.stdout
	if j.flags.all {
		bench.WriteHead(out, j.head(j.series[0]), j.flags.stepText())
		bench.Comparison{Names: j.names(), Cells: lo.Map(j.series, func(s *benchSeries, _ int) []bench.Cell { return s.cells }), Chosen: j.chosen}.Write(out)
		for _, a := range j.expected[j.spec.Classes()[0]].Answers {
			if !lo.Contains(j.names(), a.Backend) {
				fmt.Fprintf(out, "# not run: %s\n", j.serves(a.Backend))
			}
		}
	}
	for _, s := range j.series {
		for _, r := range s.refused {
			fmt.Fprintf(out, "# not served: %s: %s\n", r.Class, r.Why)
		}
		if j.flags.memory {
			bench.WriteMemory(out, s.memory)
		}
	}
	bench.WriteFoot(out, j.cells(), j.flags.ranks, j.spec.Check)
	return nil
}

// chosen is the backend that the cascade would choose for a cell.
func (j *benchJob) chosen(c bench.Cell) string {
	d := j.expected[collective.Class{Memory: j.spec.Memory, DataType: c.DataType, Op: c.Op, Captured: j.spec.Launches > 0, Registered: j.spec.Registered}]
	if i := d.Table.Lookup(c.Bytes); i != dispatch.None {
		return d.Answers[i].Backend
	}
	return "-"
}

func (j *benchJob) document(start, end time.Time) bench.Document {
	d := bench.Document{
		Version: 1, Weir: Version, Start: start, End: end, Host: hostname(), CPU: cpuModel(), Cores: runtime.NumCPU(),
		Config: bench.Config{
			Ranks: j.flags.ranks, Backend: j.flags.backend, All: j.flags.all, Sizes: j.spec.Sizes,
			Types:      lo.Map(j.spec.DataTypes, func(t collective.DataType, _ int) string { return t.String() }),
			Ops:        lo.Map(j.spec.Ops, func(o collective.Op, _ int) string { return o.String() }),
			Iterations: j.spec.Iterations, Seconds: j.spec.Seconds, Warmup: j.spec.Warmup, Check: j.spec.Check, Bind: j.flags.bind,
			Memory: j.spec.Memory.String(), Launches: j.spec.Launches,
		},
		Wrong: bench.Wrong(j.cells()), AverageBW: bench.AverageBusBW(j.cells(), j.flags.ranks),
	}
	for _, s := range j.series {
		for _, c := range s.cells {
			d.Results = append(d.Results, bench.ResultOf(c, s.backend, j.flags.ranks))
		}
		for _, m := range s.memory {
			d.Memory = append(d.Memory, bench.RankMem{Pinned: s.backend, Memory: m})
		}
		for _, r := range s.refused {
			d.Refused = append(d.Refused, bench.Refusal{Pinned: s.backend, Type: r.Class.DataType.String(), Op: r.Class.Op.String(), Why: r.Why})
		}
	}
	return d
}

// figure has a line for every backend that served, and for every class if there are several.
func (j *benchJob) figure() plot.Figure {
	var curves []bench.Curve
	for _, s := range j.series {
		for _, c := range s.cells {
			x := c.Best()
			if x == nil {
				continue
			}
			name := c.Backend
			if len(j.spec.Classes()) > 1 {
				name = fmt.Sprintf("%s, %s %s", name, c.DataType, c.Op)
			}
			_, at, ok := lo.FindIndexOf(curves, func(c bench.Curve) bool { return c.Name == name })
			if !ok {
				at = len(curves)
				curves = append(curves, bench.Curve{Name: name})
			}
			curves[at].Points = append(curves[at].Points, bench.Point{X: float64(c.Bytes), Y: x.Time})
		}
	}
	class := j.spec.Classes()[0]
	what := lo.Ternary(len(j.spec.Classes()) > 1, "", fmt.Sprintf(", %s %s", class.DataType, class.Op))
	return bench.Figure(fmt.Sprintf("All-reduce in %s memory, %s%s", lo.Ternary(j.spec.Memory == collective.CUDA, "CUDA", "host"), backend.Count(j.flags.ranks, "rank"), what),
		fmt.Sprintf("%s, %d cores; %s; mean of the slowest rank, weir %s", cpuModel(), runtime.NumCPU(),
			lo.Ternary(j.flags.place == "in", "in place", "out of place"), Version), curves, j.flags.ranks)
}
