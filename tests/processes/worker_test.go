package processes

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// workerDeadline is what the tests see pass, and a worker that is well keeps to.
var workerDeadline = await.For(300 * time.Millisecond).Round(time.Millisecond).String()

// badWorkers are the variables that configure worker plugins which go wrong at a tile; they are asked in order.
func badWorkers(faults ...string) []string {
	env := []string{"WEIR_DEADLINES__WORKER=" + workerDeadline, "WEIR_RESTART__FIRST=1h", "WEIR_RESTART__LONGEST=1h"}
	var names []string
	for i, f := range faults {
		how, at, _ := strings.Cut(f, "@")
		name := fmt.Sprintf("bad%d", i)
		names = append(names, name)
		key := "WEIR_PLUGINS__" + strings.ToUpper(name)
		env = append(env, key+"__PATH="+filepath.Join(harness.Bin, "programs", "badworker"), key+"__ENV__NAME="+name, key+"__ENV__BAD="+how, key+"__ENV__AT="+at)
	}
	return append(env, "WEIR_CASCADE__ORDER="+strings.Join(names, ","))
}

// TestWorkerGoesWrongInACall: whatever a worker does in the middle of a call, also of one that is larger than its slots and
// in place, every rank gets every result exactly once, by the next backend.
func TestWorkerGoesWrongInACall(t *testing.T) {
	const world = "3"
	for _, c := range []struct {
		faults, op string // no op: several request classes
		want       []string
	}{
		{"killed@12000", "", []string{"PLUGIN_CRASHED", "signal: killed"}},
		{"stopped@4000", "sum", []string{"TIMEOUT", "within " + workerDeadline + " of all ranks having handed it over"}},
		{"hangs@4000", "sum", []string{"TIMEOUT", "within " + workerDeadline + " of all ranks having handed it over"}},
		{"fails@4000", "sum", []string{"PLUGIN_CRASHED", "out of luck"}},
		{"panics@4000", "sum", []string{"PLUGIN_CRASHED", "a hole in the sum"}},
		// The process of the second has not ended, and yet it does not serve again.
		{"killed@4000 fails@4000 stopped@4000", "sum", []string{"from=bad0 to=bad1", "from=bad1 to=bad2", "from=bad2 to=shm-", "its worker failed in this process, which is not used again (`weir plugins reload bad1` starts another): the worker ended its service"}},
	} {
		t.Run(c.faults, func(t *testing.T) {
			folder := harness.RunFolder(t)
			out, err := harness.Weir(t, folder, badWorkers(strings.Fields(c.faults)...), "run", "-n", world, "--",
				"checked", "-calls", "1000", "-pause", "1ms", "-op", c.op).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if n := len(harness.AllRight.FindAll(out, -1)); fmt.Sprint(n) != world {
				t.Errorf("%d ranks of %s are right:\n%s", n, world, out)
			}
			for _, want := range append(c.want, "a call went on with another backend") {
				if !strings.Contains(string(out), want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestLastBackendGoes: without another backend the call is an error on all ranks that says who is gone.
func TestLastBackendGoes(t *testing.T) {
	env := append(badWorkers("killed@4000"), "WEIR_CASCADE__DISABLED=shm-flat,shm-twoshot,builtin")
	out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-q", "-n", "2", "--", "sh", "-c", "checked -calls 600 -op sum; exit 0").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "the worker of bad0 is gone"); n != 2 {
		t.Errorf("%d ranks say so, want 2:\n%s", n, out)
	}
	if !strings.Contains(string(out), "bad0: decline; PLUGIN_CRASHED") {
		t.Errorf("the error does not say why nobody serves:\n%s", out)
	}
}

// TestWorkersThatDoNotServe are found before any call.
func TestWorkersThatDoNotServe(t *testing.T) {
	for fault, want := range map[string]string{
		"refuses to attach@0": "not today",
		"never connects@0":    "the worker did not connect",
		"wrong@1":             "SELFTEST_FAILED",
		"hangs@2":             "TIMEOUT",
		"killed@2":            "PLUGIN_CRASHED",
	} {
		t.Run(fault, func(t *testing.T) {
			folder := harness.RunFolder(t)
			out, err := harness.Weir(t, folder, append(badWorkers(fault), "WEIR_DEADLINES__PREPARE="+await.For(time.Second).String()), "run", "-q", "-n", "2", "--", "checked", "-calls", "50").CombinedOutput()
			if err != nil || len(harness.AllRight.FindAll(out, -1)) != 2 || !strings.Contains(string(out), want) {
				t.Errorf("%v, want %q in\n%s", err, want, out)
			}
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestFailoverIsTraced: the decision that follows the loss, the call that went on and the count.
func TestFailoverIsTraced(t *testing.T) {
	collector := telemetrytest.Start(t)
	env := append(collector.Environ(), badWorkers("killed@4000")...)
	if out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-q", "-n", "2", "--", "checked", "-calls", "600", "-op", "sum").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var found bool
	for _, s := range collector.Spans() {
		if s.Name == "weir.failover" {
			found = true
			if a := s.Attributes; a["weir.backend"] != "bad0" || !strings.HasPrefix(a["weir.failover.to"], "shm-") || s.End <= s.Start {
				t.Errorf("span %+v", s)
			}
		}
	}
	if !found {
		t.Error("no span weir.failover")
	}
	if !slices.ContainsFunc(collector.Metrics(), func(p telemetrytest.Point) bool {
		return p.Metric == "weir.failover.duration" && p.Count == 1 && p.Value > 0
	}) {
		t.Errorf("metrics %v", collector.Metrics())
	}
}

// TestRanksDisagreeBeforeAWorker: a rank that calls with another size is found before any of the data is used, and all are told who called
// what.
func TestRanksDisagreeBeforeAWorker(t *testing.T) {
	folder := harness.RunFolder(t)
	out, err := harness.Weir(t, folder, badWorkers("fine@"), "run", "-q", "-n", "3", "--", "sh", "-c", "checked -calls 100 -op sum -other-size 1@40; exit 0").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := regexp.MustCompile(`(?m)^checked: call \d+ .*: group g1 has failed: (ranks disagree about all-reduce 40: .*ranks? .*rank.*)$`).FindAllStringSubmatch(string(out), -1)
	if len(said) != 3 || said[0][1] != said[1][1] || said[1][1] != said[2][1] || !strings.Contains(said[0][1], "ranks 0, 2: all-reduce 40 of ") || !strings.Contains(said[0][1], "; rank 1: all-reduce 40 of ") {
		t.Errorf("three ranks say %q:\n%s", said, out)
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
