package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/explain"
)

func TestOneLine(t *testing.T) {
	for want, err := range map[string]error{
		"plain":       errors.New("plain"),
		"a; b":        errors.Join(errors.New("a"), errors.New("b")),
		"x: a; b; c":  fmt.Errorf("x: %w", errors.Join(errors.New("a\r\n"), errors.New("\n\nb\nc\n"))),
		"tab\tstays;": errors.New("tab\tstays;\n"),
		"":            errors.New("\n"),
	} {
		if got := oneLine(err); got != want {
			t.Errorf("%q gives %q, want %q", err, got, want)
		}
	}
}

func TestRangeList(t *testing.T) {
	for want, ranges := range map[string][]backend.Range{
		"":                              nil,
		"all sizes":                     backend.AllBytes(),
		"1 B to 64 KiB, 1 MiB and more": {{Min: 1, Max: 64 << 10}, {Min: 1 << 20, Max: backend.NoLimit}},
		"all sizes (multiples of 16 B)": {{Min: 1, Max: backend.NoLimit, Multiple: 16}},
		"3 B to 5 B, 8 B to 8 B, 4 KiB to 1000 B": {{Min: 3, Max: 5, Multiple: 1}, {Min: 8, Max: 8}, {Min: 4096, Max: 1000}},
	} {
		if got := explain.RangeList(ranges); got != want {
			t.Errorf("%v gives %q, want %q", ranges, got, want)
		}
	}
}

// decision is one with multiples, gaps, and every kind of verdict.
func decision() dispatch.Decision {
	small := backend.Accepted(backend.Range{Min: 16, Max: 64, Multiple: 16}, backend.Range{Min: 200, Max: 300})
	large := backend.Accepted(backend.Range{Min: 33, Max: 96}, backend.Range{Min: 1 << 20, Max: backend.NoLimit, Multiple: 4})
	on := backend.Because(backend.LibMissing, "", "libnccl.so.2")
	on.Rank = 0
	other := backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "out of ideas"}
	return dispatch.Decision{
		Class: collective.Class{DataType: collective.BFloat16, Op: collective.Avg},
		Answers: []dispatch.Answer{
			{Backend: "broken", Plugin: "b", Verdict: backend.Declined(on, other)},
			{Backend: "small", Plugin: "s", Verdict: small},
			{Backend: "large", Plugin: "l", Verdict: large},
			{Backend: "never", Plugin: "n", Verdict: backend.Verdict{Kind: backend.NotAsked}},
		},
		Table: dispatch.NewTable([][]backend.Range{nil, small.Ranges, large.Ranges, nil}),
	}
}

func TestAnswerLines(t *testing.T) {
	d := decision()
	d.Answers = append(d.Answers, dispatch.Answer{Backend: "late", Verdict: backend.Accepted(backend.Range{Min: 40, Max: 50})})
	for i, want := range [][]string{
		{"LIB_MISSING on rank 0: needs libnccl.so.2", "OTHER (out of ideas)"},
		{"16 B to 64 B (multiples of 16 B), 200 B to 300 B"},
		{"33 B to 96 B, 1 MiB and more (multiples of 4 B)"},
		{"others before it serve every size"},
		{"nothing: others before it serve its 40 B to 50 B"},
	} {
		if diff := cmp.Diff(want, answerLines(d, i)); diff != "" {
			t.Errorf("%s: %s", d.Answers[i].Backend, diff)
		}
	}
}
