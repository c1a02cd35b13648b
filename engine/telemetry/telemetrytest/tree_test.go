package telemetrytest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const engine = "github.com/weir-project/weir/engine/telemetry"

// attrs makes a map of pairs of key and value.
func attrs(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestTree(t *testing.T) {
	spans := []Span{
		{Trace: "t", ID: "6", Parent: "1", Name: "step", Scope: engine, Start: 30, Attributes: attrs("weir.rank", "10")},
		{Trace: "t", ID: "7", Parent: "1", Name: "step", Scope: engine, Start: 31, Attributes: attrs("weir.rank", "2")},
		{Trace: "t", ID: "8", Parent: "1", Name: "other", Scope: engine, Start: 32, Attributes: attrs("weir.rank", "1")},
		{Trace: "t", ID: "5", Parent: "1", Name: "late", Scope: engine, Start: 40},
		{Trace: "t", ID: "4", Parent: "3", Name: "inner", Scope: engine, Start: 12},
		{Trace: "t", ID: "3", Parent: "2", Name: "call", Scope: "grpc", Start: 11},
		{Trace: "t", ID: "2", Parent: "1", Name: "early", Scope: engine, Start: 10, Failed: true, Attributes: attrs("path", "/tmp/x", "b", "1")},
		{Trace: "t", ID: "1", Parent: "0", Name: "root", Scope: engine, Start: 1},
		{Trace: "u", ID: "1", Parent: "", Name: "another", Scope: engine, Start: 2},
	}
	got := Tree(spans, View{Keep: FromEngine, Mask: func(key, value string) string {
		if key == "path" {
			return "PATH"
		}
		return value
	}})
	want := `root
  early ! b=1 path=PATH
    inner
  step weir.rank=2
  step weir.rank=10
  other weir.rank=1
  late
another
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
