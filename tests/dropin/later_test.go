package dropin

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDropInLater makes communicators that do not block, of which NCCL makes rank 1's after the others'. They are served once their
// ranks have agreed, and not ready before: what uses them earlier is refused, as by NCCL.
func TestDropInLater(t *testing.T) {
	program := linked(t, "later.c")
	for _, later := range []string{"100:1", "0", ""} { // "": NCCL has made it when its function returns, and says that it has not
		j := ncclJob{ranks: 2, program: []string{program, "made"}}
		if later != "" {
			j.env = []string{"FAKE_NCCL_LATER=" + later}
		}
		out, errs := j.underRun(t, dropIn(t))
		if calls := callsOf(t, out); calls["cuda float32 sum eager"] != 3 || calls["cuda float32 sum captured"] != 1 {
			t.Errorf("later %q: calls %v, want 3 eager and 1 captured\n%s%s", later, calls, out, errs)
		}
		const early = "early 4 Weir: the communicator is still being made: ask ncclCommGetAsyncError until it says ncclSuccess, early end 4\n"
		if strings.Count(out, early) != 2 || strings.Contains(out, "at once") {
			t.Errorf("later %q: what is early is not refused:\n%s%s", later, out, errs)
		}
	}
}

// TestDropInLaterParts does the same with parts, which are not there when ncclCommSplit returns.
func TestDropInLaterParts(t *testing.T) {
	j := ncclJob{ranks: 4, program: []string{linked(t, "later.c"), "parts"}, env: []string{"FAKE_NCCL_LATER=50:2"}}
	out, errs := j.underRun(t, dropIn(t))
	if calls := callsOf(t, out); calls["cuda float32 sum eager"] != 4 {
		t.Errorf("calls %v, want 2 of each half\n%s", calls, out)
	}
	if strings.Contains(errs, "group failed") || strings.Count(errs, "serves sums of") != 4 {
		t.Errorf("want four communicators that are served and none that fails:\n%s", errs)
	}
}

// TestDropInLaterRefused has a peer without the drop-in: the program is told where it asks.
func TestDropInLaterRefused(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "later.c"), "refused"}, env: []string{"FAKE_NCCL_LATER=0"}}
	out := j.underAgent(t, func(rank int) []string {
		return [][]string{{"NRANK=0", "WEIR_NCCL_TIMEOUT=1"}, {"NRANK=1", "LD_PRELOAD="}}[rank]
	})
	const want = "state 2 Weir: a rank did not answer in time: every rank of a communicator must have this library, or none, and what one makes in one group call all make in one (rank 0 of 2, first all-gather)\n[<nil>]"
	if !strings.Contains(out[0], want) {
		t.Errorf("lacks %q:\n%s", want, out)
	}
}

// TestDropInLaterAbort aborts, from another thread, a communicator that NCCL still makes, one whose ranks do not all agree, and one
// of which a part is made.
func TestDropInLaterAbort(t *testing.T) {
	program := linked(t, "later.c")
	for name, env := range map[string][][]string{
		"in NCCL":      {{"FAKE_NCCL_LATER=2000:1"}, {"FAKE_NCCL_LATER=2000:1"}},
		"in agreement": {{"FAKE_NCCL_LATER=0"}, {"FAKE_NCCL_LATER=0", "LD_PRELOAD="}},
		"in a split":   {{"FAKE_NCCL_LATER=0", "SPLIT=1"}, {"FAKE_NCCL_LATER=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := ncclJob{ranks: 2, program: []string{program, "ended"}}
			out := j.underAgent(t, func(rank int) []string { return append([]string{"NRANK=" + strconv.Itoa(rank)}, env[rank]...) })
			if !strings.Contains(out[0], "came back soon\n[<nil>]") {
				t.Errorf("rank 0: %s\nrank 1: %s", out[0], out[1])
			}
		})
	}
}

// TestDropInOneVisibleGPU has each process see its own GPU alone, as the first, as vLLM and SGLang may start them; and a LOCAL_RANK that all
// have from further up.
func TestDropInOneVisibleGPU(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "later.c"), "narrow"}}
	out := j.underAgent(t, func(rank int) []string {
		n := strconv.Itoa(rank)
		return []string{"NRANK=" + n, "FAKE_CUDA_DEVICES=1", "FAKE_CUDA_FIRST=" + n, "LOCAL_RANK=0"}
	})
	if calls := callsOf(t, out[0]); calls["cuda float32 sum eager"] != 2 {
		t.Errorf("calls %v, want 2\n%s", calls, out)
	}
}

// TestDropInLastError tells Weir's last error from NCCL's, whichever came later.
func TestDropInLastError(t *testing.T) {
	j := ncclJob{ranks: 2, program: []string{linked(t, "later.c"), "words"}}
	out, _ := j.underRun(t, dropIn(t))
	lines := strings.Split(out, "\n")
	for prefix, want := range map[string]int{"of Weir 4 Weir: weir_all_reduce_device: ": 4, "of NCCL 4 no such type or op": 2, "no communicator 0": 2} {
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, prefix) })); n != want {
			t.Errorf("%d lines with %q, want %d:\n%s", n, prefix, want, out)
		}
	}
}

// TestDropInPairs has communicators of two among four processes, each pair with GPUs of its own to see, as the engines of a data-parallel
// vLLM had: NCCL calls both pairs' processes 0 and 1. Whose agent has another number of ranks is NCCL's, and waits for nobody for ever.
func TestDropInPairs(t *testing.T) {
	program := linked(t, "later.c")
	pairs := func(rank int) []string {
		return []string{"NRANK=" + strconv.Itoa(rank), "FAKE_CUDA_DEVICES=2", "FAKE_CUDA_FIRST=" + strconv.Itoa(rank/2*2), "WEIR_PLUGINS__PUSH__DISABLED=true"}
	}
	t.Run("served", func(t *testing.T) {
		out := ncclJob{ranks: 4, program: []string{program, "pair"}}.underAgent(t, pairs)
		for _, first := range []int{0, 2} {
			if calls := callsOf(t, out[first]); calls["cuda float32 sum eager"] < 2 || strings.Count(out[first], "serves sums of") != 1 {
				t.Errorf("calls %v, want 2 at least\n%s", calls, out)
			}
		}
	})
	for name, c := range map[string]struct {
		ranks int
		want  string
	}{
		"more ranks than processes": {6, ": weir_join: join as any rank of 6: 4 of 6 ranks asked to join: ranks 4, 5 did not within 1s\n"},
		"fewer":                     {3, " alone, because rank "}, // whose pair is complete is served; the fourth is refused, or waits for a job after this one
	} {
		t.Run(name, func(t *testing.T) {
			j := ncclJob{ranks: 4, agents: c.ranks, program: []string{program, "pair"}, env: []string{"WEIR_GROUP__JOIN_DEADLINE=1s"}}
			all := strings.Join(j.underAgent(t, pairs), "\n")
			if !strings.Contains(all, c.want) || strings.Count(all, "[<nil>]") != 4 {
				t.Errorf("want four that end well and %q:\n%s", c.want, all)
			}
		})
	}
}
