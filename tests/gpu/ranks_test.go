package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// TestRanks runs what must work with one, two and four ranks, on as many GPUs as there are.
func TestRanks(t *testing.T) {
	devices(t)
	for _, world := range []int{1, 2, 4} {
		for _, scenario := range []string{"sum", "capture", "refuse"} {
			t.Run(fmt.Sprintf("%s of %d", scenario, world), func(t *testing.T) { ranks(t, world, scenario).quiet(t) })
		}
	}
	for _, scenario := range []string{"types", "groups"} {
		t.Run(scenario, func(t *testing.T) { ranks(t, 2, scenario).quiet(t) })
	}
}

// TestFailures runs what must be an error on every rank, after which the device is still there.
func TestFailures(t *testing.T) {
	devices(t)
	for _, c := range []struct {
		scenario string
		ranks    []int // that say so
		words    []string
	}{
		{"size", []int{0, 1}, []string{"ranks disagree about all-reduce 2: rank 0: all-reduce 2 of 400 bytes", "rank 1: all-reduce 2 of 4400 bytes"}},
		{"absent", []int{0, 1}, []string{"rank 1 did not begin all-reduce 2 within 5s: last, rank 1 began all-reduce 1"}},
		{"kill", []int{0}, []string{"rank 1", "without having left the group"}},
		{"memory", []int{0, 1}, []string{"no backend serves", "on rank 0"}},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			out := ranks(t, 2, c.scenario)
			out.contains(t, c.ranks, c.words...)
			for _, r := range c.ranks {
				if strings.Contains(out.ranks[r], "not usable") || strings.Contains(out.ranks[r], "CUDA_ERROR_ILLEGAL") {
					t.Errorf("rank %d: %s", r, out.ranks[r])
				}
			}
		})
	}
}

// TestMessages has NCCL's own words in the agent's log, with the rank.
func TestMessages(t *testing.T) {
	devices(t)
	out := ranks(t, 1, "sum", "NCCL_DEBUG=INFO")
	out.quiet(t)
	if !strings.Contains(out.log, `msg="message of a library" source=nccl rank=0 text=`) || !strings.Contains(out.log, "NCCL INFO") {
		t.Errorf("the log has nothing of NCCL's:\n%s", out.log)
	}
}

// TestRegistered uses symmetric memory, which takes GPUs that reach each other's memory.
func TestRegistered(t *testing.T) {
	n := devices(t)
	p := findNCCL(t)
	want := "# served by nccl-symm\n"
	switch {
	case backend.CompareVersions(p.Version, nccl.SymmetricVersion) < 0:
		want = "# served by nccl\n"
	case n < 2:
		want = "# served by nccl" // NCCL may make windows over sockets, where the plugin would have declined
	}
	out := ranks(t, 2, "registered")
	out.quiet(t)
	out.contains(t, []int{0, 1}, want)
}

// TestFigures prints figures; it asserts no time.
func TestFigures(t *testing.T) {
	n := devices(t)
	out := ranks(t, min(n, 2), "figures")
	out.quiet(t)
	t.Logf("%d ranks, NCCL %s\n%s", min(n, 2), findNCCL(t).Version, out.ranks[0])
}
