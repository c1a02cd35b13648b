package explain_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/engine/explain"
)

// TestMatrixSaysWhatIsUnknown: a cell does not break off in the middle of a fact, and the text says what was asked.
func TestMatrixSaysWhatIsUnknown(t *testing.T) {
	a := pcie()
	a.Decision.Answers = a.Decision.Answers[:1]
	m := explain.Matrix{Plugin: "kernels", Devices: []int{4, 5, 6, 7}, Rows: []explain.Row{{Topology: "a.txt", Answers: []explain.Answer{a}}}}
	var text strings.Builder
	if err := m.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\na.txt     ? peer-to-peer access reported, proof unknown\n", " The group is of the GPUs 4, 5, 6, 7. ",
		"\nAll cells are about bfloat16 and sum; --dtype and --op ask about others.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
