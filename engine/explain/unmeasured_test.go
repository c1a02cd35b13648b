package explain_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/explain"
)

// TestUnmeasured says of every range whether its bounds were measured, where spans hold both too, and as a difference.
func TestUnmeasured(t *testing.T) {
	guess := backend.Range{Min: 1, Max: 1 << 10, Unmeasured: true}
	measured := backend.Range{Min: 1<<10 + 1, Max: 1 << 20}
	a := pcie()
	a.Decision.Answers = []dispatch.Answer{
		{Backend: "mixed", Plugin: "kernels", Verdict: backend.Accepted(guess, measured)},
		{Backend: "nccl", Plugin: "nccl", Verdict: backend.Accepted(backend.AllBytes()...)},
	}
	a.Decision.Table = dispatch.NewTable([][]backend.Range{{guess, measured}, backend.AllBytes()})
	a.Sizes, a.Changes, a.Remarks = nil, make([][]string, 2), make([][]string, 2)
	var text, side strings.Builder
	if err := a.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := (explain.Comparison{a}).Text(&side); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mixed chosen (partly unmeasured)", "1048577 B and more: nccl"} {
		if got := strings.Join(squeeze(text.String()), "\n"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := strings.Join(squeeze(side.String()), "\n"); !strings.Contains(got, "mixed accept 1 B to 1 KiB (unmeasured), 1025 B to 1 MiB") {
		t.Errorf("side by side:\n%s", got)
	}
	var file bytes.Buffer
	if err := explain.Encode(&file, a.JSON()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(file.String(), `"unmeasured": true`); n != 2 { // of the chosen and of the candidate
		t.Errorf("said %d times in\n%s", n, file.String())
	}
	before, err := explain.Decode(&file)
	if err != nil {
		t.Fatal(err)
	}
	a.Decision.Answers[0].Verdict = backend.Accepted(backend.Range{Min: 1, Max: 1 << 10}, measured)
	d := explain.Diff(before, a.JSON())
	if want := "mixed: was accepted (1 B to 1 KiB (unmeasured); 1025 B to 1 MiB), now accepted (1 B to 1 KiB; 1025 B to 1 MiB)"; len(d.Verdicts) != 1 || d.Verdicts[0] != want {
		t.Errorf("got %q, want %q", d.Verdicts, want)
	}
	if len(d.Chosen) != 0 {
		t.Errorf("a measurement changes who serves: %q", d.Chosen)
	}
}
