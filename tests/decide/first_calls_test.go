package decide

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestFirstCalls has processes make new groups, one and several at once, whose first calls are small, while others burn the cores: all
// of what lies between a request for a decision and the first signal of a call is run in many orders. The models in engine/agent try
// every order of a small one.
func TestFirstCalls(t *testing.T) {
	for _, c := range []struct{ ranks, rounds, atOnce, burners int }{{3, 6, 1, 0}, {3, 2, 3, 2}, {2, 2, 2, 1}} {
		t.Run(fmt.Sprintf("%d ranks, %d groups at once, %d burners", c.ranks, c.atOnce, c.burners), func(t *testing.T) {
			run := exec.CommandContext(await.Context(t, 2*time.Minute), filepath.Join(harness.Bin, "weir"), "run", "-q", "-n", fmt.Sprint(c.ranks), "--", filepath.Join(harness.Bin, "programs", "firstcalls"),
				"-rounds", fmt.Sprint(c.rounds), "-at-once", fmt.Sprint(c.atOnce), "-burners", fmt.Sprint(c.burners))
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%s\n%s", err, out)
			}
		})
	}
}

// TestCallInProgressNamesItsBackend: what is kept of a group that failed tells calls that waited for a decision from calls that were
// under way.
func TestCallInProgressNamesItsBackend(t *testing.T) {
	for name, want := range map[string]string{"undecided": "", "decided": "flat"} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan agent.GroupStatus, 1)
			j := harness.StartAgent(t, 2, func(o *agent.Options) {
				o.CallDeadline = await.For(300 * time.Millisecond)
				o.Failed = func(s agent.GroupStatus) { failed <- s }
			}, harness.Candidate("flat", &harness.Fake{}))
			gone := make(chan struct{})
			errs := j.Each(t, 2, func(s *rank.Session) error {
				if name == "decided" {
					if err := sumOf(s.World(), 27); err != nil {
						return err
					}
				}
				if s.World().Rank() == 1 {
					<-gone
					return nil
				}
				defer close(gone)
				return sumOf(s.World(), 27)
			})
			harness.WantErrors(t, errs[:1], "rank 1")
			calls := (<-failed).Ranks[0].Last
			if last := calls[len(calls)-1]; last.Backend != want || last.Bytes != 108 {
				t.Errorf("the last call is %+v, want one by backend %q", last, want)
			}
		})
	}
}
