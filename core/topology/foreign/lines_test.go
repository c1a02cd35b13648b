package foreign_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// TestLinesLost leaves out each line of every file, and then two together: what is left must not be read as another
// machine.
func TestLinesLost(t *testing.T) {
	for _, part := range []string{"topo", "other"} {
		for _, row := range index(t, part) {
			t.Run(row["id"], func(t *testing.T) {
				b := string(text(t, part, row["file"]))
				whole := read(t, []byte(b))
				lines := strings.SplitAfter(b, "\n")
				for i := range lines {
					for _, n := range []int{1, 2} {
						rest := strings.Join(lines[:i], "") + strings.Join(lines[min(i+n, len(lines)):], "")
						if r, err := foreign.Read([]byte(rest)); err == nil {
							checkPart(t, rest, r, whole)
						}
					}
				}
			})
		}
	}
}

// checkPart checks that a reading shows nothing that the whole does not.
func checkPart(t *testing.T, text string, r, whole foreign.Reading) {
	t.Helper()
	at := map[int]int{}
	for i, d := range whole.Graph.Devices {
		at[d.Index] = i
	}
	links, all := r.Links(), whole.Links()
	for a, da := range r.Graph.Devices {
		i, ok := at[da.Index]
		if !ok {
			t.Fatalf("a GPU %d that is not there:\n%s", da.Index, text)
		}
		if cpu := whole.Graph.Devices[i].CPUAffinity; da.CPUAffinity != "" && da.CPUAffinity != cpu {
			t.Fatalf("CPUs of GPU %d are read as %q, not %q:\n%s", da.Index, da.CPUAffinity, cpu, text)
		}
		for b, db := range r.Graph.Devices {
			if l := links[a][b]; l != (topology.Link{}) && l != all[i][at[db.Index]] {
				t.Fatalf("pair %d-%d is read as %s, not %s:\n%s", da.Index, db.Index, l, all[i][at[db.Index]], text)
			}
		}
	}
	if f := r.FullNVLink(); f == topology.Yes && whole.FullNVLink() != topology.Yes && len(r.Graph.Devices) < len(whole.Graph.Devices) && r.Complete == foreign.Whole {
		t.Fatalf("full NVLink %s, not %s:\n%s", f, whole.FullNVLink(), text)
	}
}
