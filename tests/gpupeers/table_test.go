package main

import (
	"strings"
	"testing"
)

// TestTable: medians over the passes, ratios of the same pass, and blanks where nothing was measured.
func TestTable(t *testing.T) {
	d := document{Ranks: 2, GPU: "GPU", Driver: "1", Torch: "2", NCCL: "3", Type: "bfloat16", Rows: []row{
		{Pass: 0, Mode: "graph", Column: cascade, Bytes: 1024, Trials: []float64{2, 4, 90}, Served: "oneshot"},
		{Pass: 0, Mode: "graph", Column: "nccl", Bytes: 1024, Trials: []float64{21}},
		{Pass: 0, Mode: "graph", Column: direct, Bytes: 1024, Trials: []float64{20}},
		{Pass: 1, Mode: "graph", Column: direct, Bytes: 1024, Trials: []float64{30}},
		{Pass: 1, Mode: "graph", Column: cascade, Bytes: 1024, Trials: []float64{10}, Served: "oneshot"},
		{Pass: 1, Mode: "graph", Column: "mine", Bytes: 8, Trials: []float64{1.234}},
	}}
	var out strings.Builder
	d.write(&out)
	want := `
| graph, µs | NCCL | nccl | mine | cascade | served by | NCCL ÷ cascade | nccl ÷ NCCL |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 8 B |  |  | 1.23 |  |  |  |  |
| 1 KiB | 25 | 21 |  | 7 | oneshot | 4.00 | 1.05 |
`
	if got := out.String(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(out.String(), "2 × GPU, driver 1, PyTorch 2, NCCL 3, bfloat16, 2 passes") {
		t.Error(out.String())
	}
}

func TestSizes(t *testing.T) {
	for _, bad := range []string{"", "0", "12", "8,", "1k"} {
		if _, err := parseSizes(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
