package dropin

import (
	"regexp"
	"strconv"
	"testing"
)

// TestDropInRankGone has rank 1 end when the ranks have met: before it tells whether it has joined, or what its group serves. Rank 0
// sees it, whether or not it waits in the function that makes the communicator, and its thread is as it was before.
func TestDropInRankGone(t *testing.T) {
	program := linked(t, "later.c")
	for name, c := range map[string]struct{ scenario, ends, want string }{
		"before it has joined": {"refused", "1:1", `^state 2 Weir: rank 1 \(process \d+\) has ended$`},
		"with a group":         {"refused", "2:1", `^state 2 Weir: rank 1 \(process \d+\) has ended$`},
		"blocking":             {"left", "1:1", `^made 2 Weir: rank 1 \(process \d+\) has ended\ncapture mode 0, the same context$`},
	} {
		t.Run(name, func(t *testing.T) {
			j := ncclJob{ranks: 2, program: []string{program, c.scenario}, env: []string{"FAKE_NCCL_LATER=0", "FAKE_NCCL_ENDS=" + c.ends}}
			out := j.underAgent(t, func(rank int) []string { return []string{"NRANK=" + strconv.Itoa(rank)} })
			if !regexp.MustCompile("(?m)"+c.want).MatchString(out[0]) || out[1] != "[exit status 3]" {
				t.Errorf("want %s:\n%s", c.want, out)
			}
		})
	}
}
