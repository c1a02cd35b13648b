package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// TestTopologiesDocumented holds the page for users to the presets and formats that there are.
func TestTopologiesDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/topologies.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	var want []string
	for _, p := range topology.Presets() {
		names := append([]string{p.Name}, p.Aliases...)
		want = append(want, fmt.Sprintf("| `%s` | %s |", strings.Join(names, "`, `"), p.About))
	}
	if table := strings.Join(want, "\n"); !strings.Contains(page, table) {
		t.Errorf("docs/topologies.md lacks the presets:\n%s", table)
	}
	for _, f := range foreign.Formats() {
		for _, word := range strings.Fields(f) {
			if !strings.Contains(page, word) {
				t.Errorf("docs/topologies.md does not name the format %s", f)
			}
		}
	}
}
