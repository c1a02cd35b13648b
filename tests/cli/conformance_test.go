package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestConformance: the plugins of this repository keep every rule.
func TestConformance(t *testing.T) {
	for _, path := range []string{"plugins/shm", "plugins/nccl", "plugins/push", "examples/backend-minimal", "examples/backend-worker", "examples/backend-triton"} {
		t.Run(path, func(t *testing.T) {
			c, code := harness.Conform(t, nil, filepath.Join(harness.Bin, path))
			for _, x := range c.Results {
				if x.Outcome == "fail" {
					t.Errorf("%+v", x)
				}
				if x.Outcome == "skip" && !strings.Contains(x.Reason, "there is none here") && !strings.Contains(x.Reason, "it accepts nothing here") {
					t.Errorf("skipped: %+v", x)
				}
			}
			if code != 0 || c.OK < 15 {
				t.Errorf("exit code %d, %d ok", code, c.OK)
			}
		})
	}
}

// brokenProcesses are the ways of tests/programs/brokenplugin, by the rule that finds each.
var brokenProcesses = []struct {
	rule, how, seen string
	args            []string
}{
	{"process/handshake", "handshake", `its first line on stdout is "hello"`, nil},
	{"process/handshake", "exits", "cannot find my library", nil},
	{"process/health", "health", `grpc.health.v1.Health/Check of the service "plugin"`, nil},
	{"process/stdout", "stdout", `the first: "asked about host float32 sum eager"`, []string{"--run", "^accept/honest$|^process/stdout$"}},
	{"process/restart", "restart", "there is a lock of mine already", nil},
	{"process/orphan", "orphan", "after descriptor 3 came to its end", []string{"--deadline", "2s"}},
	{"hypothetical/probes-nothing", "probes a library", "libcuda.so.1", nil},
	{"hypothetical/probes-nothing", "probes with a program", "it started the processes", nil},
	{"process/leak", "leak descriptors", "descriptors were open", nil},
	{"process/leak", "leak memory", "its memory grew", nil},
	{"process/leak", "leak processes", "processes, and after many groups", nil},
	{"process/leak", "leak mappings", "of workers' memory were there", nil},
}

// TestBrokenProcesses: each rule about a plugin's process catches plugins that break it, by its name.
func TestBrokenProcesses(t *testing.T) {
	for _, c := range brokenProcesses {
		t.Run(c.rule+"/"+c.how, func(t *testing.T) {
			args := append([]string{filepath.Join(harness.Bin, "programs", "brokenplugin"), "--env", "BREAK=" + c.how, "--env", "BREAK_DIR=" + t.TempDir(), "--run", "^" + c.rule + "$"}, c.args...)
			got, code := harness.Conform(t, nil, args...)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, x := range got.Results {
				switch {
				case x.Rule != c.rule && x.Outcome == "fail":
					t.Errorf("it breaks %+v too", x)
				case x.Rule == c.rule && (x.Outcome != "fail" || !strings.Contains(x.Seen, c.seen) || x.Expected == "" || !strings.HasPrefix(x.See, "docs/authors/testing.md#")):
					t.Errorf("got %+v, want %q", x, c.seen)
				}
			}
			if len(got.Results) == 0 {
				t.Error("no results")
			}
		})
	}
}

// TestWorkersThatGoWrongLater: a worker that is right as long as ranks try it does not pass, and the message names the call.
func TestWorkersThatGoWrongLater(t *testing.T) {
	for _, c := range []struct{ rule, how, call, seen string }{
		{"results/exact", "wrong", "1", "call number 1: element 0 is"},
		{"results/exact", "wrong", "shorter", ": element 0 is"},
		{"worker/calls", "wrong", "5", "call number 5: element 0 is"},
		{"worker/calls", "wrong", "131073", "call number 131073: element 0 is"},
		{"worker/calls", "wrong", "shorter", "call number 3: element 0 is"},
		{"worker/calls", "exits", "2", "call number 2: the worker is gone"},
		{"worker/calls", "killed", "64", "call number 64: the worker is gone"},
		{"worker/calls", "panics", "7", "a hole in the sum"},
		{"worker/calls", "fails", "999", "out of luck"},
		{"worker/calls", "hangs", "5", "call number 5: it took longer than "},
		{"worker/calls", "stopped", "33", "call number 33: it took longer than "},
		{"worker/calls", "", "", ""},
	} {
		t.Run(c.rule+" "+c.how+" at "+c.call, func(t *testing.T) {
			got, code := harness.Conform(t, nil, filepath.Join(harness.Bin, "programs", "badworker"), "--run", "^"+c.rule+"$",
				"--deadline", await.For(time.Second).String(), "--env", "BAD="+c.how, "--env", "CALL="+c.call)
			outcome, want := "fail", 1
			if c.how == "" {
				outcome, want = "ok", 0
			}
			if len(got.Results) != 1 || code != want || got.Results[0].Outcome != outcome || !strings.Contains(got.Results[0].Seen, c.seen) {
				t.Errorf("exit code %d, want %q in %+v", code, c.seen, got.Results)
			}
		})
	}
}

// TestToldOnce: a call that hangs or ends the process, and a schedule that is refused, break the rule that is about it. Those that
// would need it say so, and the rest is looked at as ever.
func TestToldOnce(t *testing.T) {
	for _, c := range []struct {
		how, rule, seen, skipped string
		not                      []string // rules that are not run
	}{
		{"hangs in plan", "plan/valid", "Plan: no answer within ", "not run: Plan hangs, see plan/valid", []string{"plan/proved", "plan/repeatable", "results/exact", "results/concurrent", "release/harmless", "process/restart"}},
		{"crashes in plan", "plan/valid", "Plan: plan: the plugin's process ended", "not run: Plan ends the plugin's process, see plan/valid", []string{"plan/proved", "results/exact", "release/harmless"}},
		{"unproved plan", "plan/proved", "read", "not run: a schedule was refused, see plan/proved", []string{"results/exact"}},
		{"hangs in accept", "accept/honest", "Accept: no answer within ", "not run: Accept hangs, see accept/honest", []string{"accept/pure", "plan/valid", "results/exact"}},
		{"crashes in accept", "accept/honest", "Accept: accept: the plugin's process ended", "not run: Accept ends the plugin's process, see accept/honest", []string{"plan/valid", "results/exact"}},
	} {
		t.Run(c.how, func(t *testing.T) {
			got, code := harness.Conform(t, nil, filepath.Join(harness.Bin, "programs", "badplugin"), "--env", "BAD="+c.how,
				"--run", "^(accept|hypothetical|deadline|plan|results|release|process/restart)", "--deadline", await.For(300*time.Millisecond).String())
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			seen := map[string]string{}
			for _, x := range got.Results {
				seen[x.Rule] = x.Seen + x.Reason
				if x.Outcome == "fail" && x.Rule != c.rule {
					t.Errorf("it breaks %+v too", x)
				}
			}
			if !strings.Contains(seen[c.rule], c.seen) {
				t.Errorf("%s: got %q, want %q", c.rule, seen[c.rule], c.seen)
			}
			for _, rule := range c.not {
				if seen[rule] != c.skipped {
					t.Errorf("%s: got %q, want %q", rule, seen[rule], c.skipped)
				}
			}
		})
	}
}

// TestEveryProcessRuleIsBroken: the other rules have their breakers in sdk/conformance.
func TestEveryProcessRuleIsBroken(t *testing.T) {
	broken := map[string]bool{}
	for _, c := range brokenProcesses {
		broken[c.rule] = true
	}
	for _, r := range conformance.Rules() {
		if r.Process && !broken[r.Name] {
			t.Errorf("no plugin breaks %s", r.Name)
		}
	}
}

// TestGoodProcess: brokenplugin breaks nothing when it is not told to.
func TestGoodProcess(t *testing.T) {
	c, code := harness.Conform(t, nil, filepath.Join(harness.Bin, "programs", "brokenplugin"))
	if code != 0 || c.Failed > 0 {
		t.Errorf("%+v", c)
	}
}
