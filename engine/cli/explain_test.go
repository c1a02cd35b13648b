package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
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
		if got := rangeList(ranges); got != want {
			t.Errorf("%v gives %q, want %q", ranges, got, want)
		}
	}
}

func TestOutsideRanges(t *testing.T) {
	windows := backend.Accepted(backend.Range{Min: 16, Max: 64, Multiple: 4}, backend.Range{Min: 1 << 10, Max: 1 << 20})
	list := "16 B to 64 B (multiples of 4 B), 1 KiB to 1 MiB"
	for _, c := range []struct {
		verdict backend.Verdict
		bytes   int64
		want    string // "" if it is not outside
	}{
		{windows, 16, ""},
		{windows, 64, ""},
		{windows, 1025, ""},
		{windows, 15, "TOO_SMALL: 15 B, needs " + list},
		{windows, 17, "ALIGNMENT: 17 B, needs " + list},
		{windows, 65, "OTHER: 65 B, needs " + list + " (between the sizes that it serves)"},
		{windows, 1023, "OTHER: 1023 B, needs " + list + " (between the sizes that it serves)"},
		{windows, 1<<20 + 1, "TOO_LARGE: 1048577 B, needs " + list},
		{backend.Accepted(backend.AllBytes()...), 1, ""},
		{backend.Declined(backend.Because(backend.MemoryKind, "host", "cuda")), 1, ""}, // that has reasons of its own
		{backend.Verdict{Kind: backend.NotAsked}, 1, ""},
	} {
		reason, outside := outsideRanges(c.verdict, c.bytes)
		if outside != (c.want != "") || outside && reason.String() != c.want {
			t.Errorf("%s, %d bytes: %s, %t; want %q", c.verdict, c.bytes, reason, outside, c.want)
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

// wantExplanation is decision as a program reads it.
const wantExplanation = `{
  "group": {
    "full_nvlink": "no",
    "world_size": 2,
    "worst": "HOST"
  },
  "request": {
    "captured": false,
    "dtype": "bfloat16",
    "memory": "host",
    "op": "avg"
  },
  "chosen": [
    {"min": 1, "max": 15, "backend": null},
    {"min": 16, "max": 32, "multiple": 16, "backend": "small"},
    {"min": 33, "max": 64, "multiple": 16, "backend": "small"},
    {"min": 33, "max": 64, "backend": "large"},
    {"min": 65, "max": 96, "backend": "large"},
    {"min": 97, "max": 199, "backend": null},
    {"min": 200, "max": 300, "backend": "small"},
    {"min": 301, "max": 1048575, "backend": null},
    {"min": 1048576, "max": null, "multiple": 4, "backend": "large"}
  ],
  "sizes": [
    {"bytes": 48, "backend": "small"},
    {"bytes": 49, "backend": "large"},
    {"bytes": 17, "backend": null},
    {"bytes": 1048577, "backend": null}
  ],
  "candidates": [
    {
      "backend": "broken", "plugin": "b", "verdict": "decline", "ranges": [],
      "reasons": [
        {"code": "LIB_MISSING", "observed": "", "required": "libnccl.so.2", "rank": 0, "text": "a library was not found"},
        {"code": "OTHER", "observed": "", "required": "", "rank": null, "text": "out of ideas"}
      ]
    },
    {
      "backend": "small", "plugin": "s", "verdict": "accept",
      "ranges": [{"min": 16, "max": 64, "multiple": 16}, {"min": 200, "max": 300}], "reasons": []
    },
    {
      "backend": "large", "plugin": "l", "verdict": "accept",
      "ranges": [{"min": 33, "max": 96}, {"min": 1048576, "max": null, "multiple": 4}], "reasons": []
    },
    {"backend": "never", "plugin": "n", "verdict": "not_asked", "ranges": [], "reasons": []}
  ]
}`

func TestExplanation(t *testing.T) {
	var got bytes.Buffer
	if err := encodeJSON(&got, explanation(collective.HostGroup("g", 2), decision(), []int64{48, 49, 17, 1<<20 + 1})); err != nil {
		t.Fatal(err)
	}
	// Spaces apart: cmp shows the difference line by line.
	plain := func(s string) []string {
		s = strings.Join(strings.Fields(s), " ")
		s = strings.NewReplacer("{ ", "{", " }", "}", "[ ", "[", " ]", "]").Replace(s)
		return strings.SplitAfter(s, "},")
	}
	if diff := cmp.Diff(plain(wantExplanation), plain(got.String())); diff != "" {
		t.Error(diff)
	}
}

func TestExplanationOfNothing(t *testing.T) {
	d := dispatch.Decision{Table: dispatch.NewTable(nil)}
	x := explanation(collective.HostGroup("g", 1), d, nil)
	if len(x.Chosen) != 1 || x.Chosen[0].Backend != nil || x.Chosen[0].Min != 1 || x.Chosen[0].Max != nil {
		t.Errorf("without a candidate all sizes are chosen for nobody, not %+v", x.Chosen)
	}
	var got bytes.Buffer
	if err := encodeJSON(&got, x); err != nil || !strings.Contains(got.String(), `"candidates": []`) {
		t.Errorf("a list that is empty is a list: %v\n%s", err, got.String())
	}
}

func TestWriteSizes(t *testing.T) {
	var got strings.Builder
	writeSizes(&got, decision(), []int64{48, 49, 97})
	want := `
48 B: small

49 B: large
  not small: ALIGNMENT: 49 B, needs 16 B to 64 B (multiples of 16 B), 200 B to 300 B

97 B: no backend serves it
  not small: OTHER: 97 B, needs 16 B to 64 B (multiples of 16 B), 200 B to 300 B (between the sizes that it serves)
  not large: OTHER: 97 B, needs 33 B to 96 B, 1 MiB and more (multiples of 4 B) (between the sizes that it serves)
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
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

func TestQuestion(t *testing.T) {
	good := question{ranks: 8, memory: "cuda", dataType: "half", op: "max", captured: true, format: "json", sizes: []string{"14336", "1MiB"}}
	class, sizes, err := good.parse()
	want := collective.Class{Memory: collective.CUDA, DataType: collective.Float16, Op: collective.Max, Captured: true}
	if err != nil || class != want || !cmp.Equal(sizes, []int64{14336, 1 << 20}) {
		t.Errorf("%v, %v, %v", class, sizes, err)
	}
	for words, change := range map[string]func(*question){
		`--memory: unknown memory kind "tape"`:   func(q *question) { q.memory = "tape" },
		`--dtype: unknown data type "float3"`:    func(q *question) { q.dataType = "float3" },
		`--op: unknown reduce op "add"`:          func(q *question) { q.op = "add" },
		"host memory cannot be captured":         func(q *question) { q.memory = "host" },
		"--ranks: 0 ranks; give 1 or more":       func(q *question) { q.ranks = 0 },
		`--format: unknown format "xml"`:         func(q *question) { q.format = "xml" },
		"--bytes: ":                              func(q *question) { q.sizes = []string{"1 parsec"} },
		"--bytes: a message has at least 1 byte": func(q *question) { q.sizes = []string{"8", "0"} },
	} {
		q := good
		change(&q)
		if _, _, err := q.parse(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, want one with %q", err, words)
		}
	}
}
