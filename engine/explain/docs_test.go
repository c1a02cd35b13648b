package explain_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/diagnose"
)

// TestDocumentListsFindings: every finding has a section that says what to do, and no other has.
func TestDocumentListsFindings(t *testing.T) {
	b, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []diagnose.Code
	for _, m := range regexp.MustCompile("(?m)^### `([A-Z0-9_]+)`$").FindAllStringSubmatch(string(b), -1) {
		listed = append(listed, diagnose.Code(m[1]))
	}
	want := diagnose.Codes()
	slices.Sort(want)
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("docs/explain.md (-code +document):\n%s", diff)
	}
}
