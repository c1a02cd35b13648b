package cli

import (
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

// explanationJSON is what `weir explain --format json` prints. Byte counts are inclusive; a max of null is no limit.
type explanationJSON struct {
	Group      map[string]any  `json:"group"`
	Request    map[string]any  `json:"request"`
	Chosen     []chosenJSON    `json:"chosen"`
	Sizes      []sizeJSON      `json:"sizes,omitempty"`
	Candidates []candidateJSON `json:"candidates"`
}

type chosenJSON struct {
	rangeJSON
	Backend *string `json:"backend"` // null: nobody
}

type sizeJSON struct {
	Bytes   int64   `json:"bytes"`
	Backend *string `json:"backend"`
}

type candidateJSON struct {
	Backend string       `json:"backend"`
	Plugin  string       `json:"plugin"`
	Verdict backend.Kind `json:"verdict"`
	Ranges  []rangeJSON  `json:"ranges"`
	Reasons []reasonJSON `json:"reasons"`
}

type rangeJSON struct {
	Min      int64  `json:"min"`
	Max      *int64 `json:"max"`
	Multiple int64  `json:"multiple,omitempty"`
}

type reasonJSON struct {
	Code     backend.Code `json:"code"`
	Observed string       `json:"observed"`
	Required string       `json:"required"`
	Rank     *int         `json:"rank"`
	Text     string       `json:"text"`
}

func explanation(g collective.Group, d dispatch.Decision, sizes []int64) explanationJSON {
	name := func(i int) *string {
		if i == dispatch.None {
			return nil
		}
		return &d.Answers[i].Backend
	}
	x := explanationJSON{
		Group: map[string]any{"world_size": g.WorldSize(), "worst": g.Worst().String(), "full_nvlink": g.FullNVLink().String()},
		Request: map[string]any{
			"memory": d.Class.Memory.String(), "dtype": d.Class.DataType.String(), "op": d.Class.Op.String(), "captured": d.Class.Captured,
		},
		Sizes: lo.Map(sizes, func(n int64, _ int) sizeJSON { return sizeJSON{n, name(d.Table.Lookup(n))} }),
		Candidates: lo.Map(d.Answers, func(a dispatch.Answer, _ int) candidateJSON {
			return candidateJSON{a.Backend, a.Plugin, a.Verdict.Kind, lo.Map(a.Verdict.Ranges, toRangeJSON), lo.Map(a.Verdict.Reasons, toReasonJSON)}
		}),
	}
	min := int64(1)
	for _, s := range d.Table.Segments() {
		if len(s.Choices) == 0 {
			x.Chosen = append(x.Chosen, chosenJSON{toRangeJSON(backend.Range{Min: min, Max: s.Max}, 0), nil})
		}
		for _, c := range s.Choices {
			x.Chosen = append(x.Chosen, chosenJSON{toRangeJSON(backend.Range{Min: min, Max: s.Max, Multiple: c.Multiple}, 0), name(c.Index)})
		}
		min = s.Max + 1
	}
	return x
}

func toRangeJSON(r backend.Range, _ int) rangeJSON {
	j := rangeJSON{Min: r.Min, Max: &r.Max}
	if r.Max == backend.NoLimit {
		j.Max = nil
	}
	if r.Multiple > 1 {
		j.Multiple = r.Multiple
	}
	return j
}

func toReasonJSON(r backend.Reason, _ int) reasonJSON {
	j := reasonJSON{Code: r.Code, Observed: r.Observed, Required: r.Required, Text: r.Text}
	if r.Rank != backend.AnyRank {
		j.Rank = &r.Rank
	}
	if j.Text == "" {
		j.Text = r.Code.Meaning()
	}
	return j
}
