package foreign_test

import (
	"errors"
	"testing"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// TestCutAnywhere cuts every file of the corpus at hundreds of places: what is left must not be read as something else.
func TestCutAnywhere(t *testing.T) {
	for _, part := range []string{"topo", "other", "nccl-xml"} {
		for _, row := range index(t, part) {
			t.Run(row["id"], func(t *testing.T) {
				b := text(t, part, row["file"])
				whole := read(t, b)
				for n := 0; n < len(b); n += 1 + len(b)/400 {
					r, err := foreign.Read(b[:n])
					var e *foreign.Error
					switch {
					case err != nil && !errors.As(err, &e):
						t.Fatalf("cut at %d: error of type %T", n, err)
					case err == nil:
						checkCut(t, n, r, whole)
					}
				}
			})
		}
	}
}

func checkCut(t *testing.T, n int, r, whole foreign.Reading) {
	t.Helper()
	if len(r.Graph.Devices) > len(whole.Graph.Devices) {
		t.Fatalf("cut at %d: %d GPUs of %d", n, len(r.Graph.Devices), len(whole.Graph.Devices))
	}
	links, all := r.Links(), whole.Links()
	for a := range links {
		for b, l := range links[a] {
			if l != (topology.Link{}) && l != all[a][b] {
				t.Fatalf("cut at %d: pair %d-%d is read as %s, not %s", n, a, b, l, all[a][b])
			}
		}
	}
	if full := r.FullNVLink(); r.Complete == foreign.Cut && full != topology.NotKnown && full != whole.FullNVLink() && whole.FullNVLink() != topology.NotKnown {
		t.Fatalf("cut at %d: full NVLink %s, not %s", n, full, whole.FullNVLink())
	}
	if r.Complete != foreign.Cut && len(r.Graph.Devices) < len(whole.Graph.Devices) && r.Format() == whole.Format() && r.Format() != foreign.NVLinkS {
		t.Fatalf("cut at %d: %d GPUs of %d and called complete", n, len(r.Graph.Devices), len(whole.Graph.Devices))
	}
}
