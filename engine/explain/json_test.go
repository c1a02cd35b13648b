package explain_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/explain"
)

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
		reason, outside := explain.Outside(c.verdict, c.bytes)
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
  "profile": "weir",
  "topology": {
    "source": "this machine",
    "complete": "unknown"
  },
  "group": {
    "world_size": 2,
    "worst": "HOST",
    "full_nvlink": "no",
    "hosts": 1,
    "p2p": "unknown",
    "multicast": "unknown"
  },
  "request": {
    "memory": "host",
    "dtype": "bfloat16",
    "op": "avg",
    "captured": false
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
  ],
  "warnings": [],
  "diagnoses": []
}`

// answer is decision about two ranks.
func answer(sizes ...int64) explain.Answer {
	d := decision()
	return explain.New(explain.Answer{
		Profile: "weir", Topology: explain.Topology{Source: "this machine", Complete: "unknown"},
		Request: backend.Request{Group: collective.HostGroup("g", 2), Class: d.Class}, Decision: d,
		Sizes: lo.Map(sizes, func(n int64, _ int) explain.Size { return explain.Size{Bytes: n} }),
	}, nil)
}

func TestJSON(t *testing.T) {
	var got bytes.Buffer
	if err := explain.Encode(&got, answer(48, 49, 17, 1<<20+1).JSON()); err != nil {
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

func TestJSONOfNothing(t *testing.T) {
	x := explain.New(explain.Answer{
		Request:  backend.Request{Group: collective.HostGroup("g", 1)},
		Decision: dispatch.Decision{Table: dispatch.NewTable(nil)},
	}, nil).JSON()
	if len(x.Chosen) != 1 || x.Chosen[0].Backend != nil || x.Chosen[0].Min != 1 || x.Chosen[0].Max != nil {
		t.Errorf("without a candidate all sizes are chosen for nobody, not %+v", x.Chosen)
	}
	var got bytes.Buffer
	if err := explain.Encode(&got, x); err != nil || !strings.Contains(got.String(), `"candidates": []`) {
		t.Errorf("a list that is empty is a list: %v\n%s", err, got.String())
	}
}

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	var got bytes.Buffer
	want := answer(48).JSON()
	if err := explain.Encode(&got, want); err != nil {
		t.Fatal(err)
	}
	back, err := explain.Decode(&got)
	if err != nil {
		t.Fatal(err)
	}
	if d := explain.Diff(want, back); d.Changed() || len(d.Questions) > 0 {
		t.Errorf("changed on the way: %+v", d)
	}
	for _, bad := range []string{"", "[]", "{}", "{\"chosen\":[]}", "chosen", "{\"chosen\":[{\"min\":1}]}"} {
		if _, err := explain.Decode(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "weir explain --format json") {
			t.Errorf("%q is read, error %v", bad, err)
		}
	}
}

// FuzzDecode: whatever a file holds, reading and comparing it ends in an answer or an error.
func FuzzDecode(f *testing.F) {
	var good bytes.Buffer
	if err := explain.Encode(&good, answer(48).JSON()); err != nil {
		f.Fatal(err)
	}
	f.Add(good.String())
	f.Add(`{"chosen":[{"min":-5,"max":-9,"multiple":-1}],"request":{"dtype":"x"},"group":{"world_size":1}}`)
	f.Add(`{"chosen":[{"min":9223372036854775807,"max":9223372036854775807}],"request":{"dtype":"x"},"group":{"world_size":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := explain.Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		if d := explain.Diff(x, x); d.Changed() {
			t.Errorf("an answer differs from itself: %+v", d)
		}
		explain.Diff(x, answer().JSON())
	})
}
