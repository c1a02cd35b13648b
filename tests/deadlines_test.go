package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ownTime are the tests that keep time by themselves, by file or by file and function, each with why that is no deadline and no order
// of events. Work is what a fake takes for it; a moment is one of many at which something happens, whatever others do then.
var ownTime = map[string]string{
	"engine/agent/fuzz_test.go act":                                      "a pause that the input asks for",
	"sdk/rank/fuzz_test.go act":                                          "a pause that the input asks for",
	"sdk/rank/fuzz_test.go FuzzAgent":                                    "a moment",
	"sdk/worker/fuzz_test.go vandal":                                     "a pause that the input asks for",
	"sdk/worker/worker_test.go call":                                     "ranks are late by a random time",
	"sdk/internal/exec/group_test.go dawdle":                             "ranks are late by a random time",
	"sdk/internal/exec/waited_test.go TestDeadlineOfASlowCall":           "work",
	"sdk/conformance/suite_test.go late":                                 "work, which is too late for the suite",
	"engine/pluginhost/backoff_test.go":                                  "it runs in the time of synctest",
	"engine/pluginhost/late_test.go":                                     "it runs in the time of synctest",
	"engine/loglimit/loglimit_test.go":                                   "it runs in the time of synctest",
	"engine/pluginhost/plugin_test.go forever":                           "a hang",
	"engine/pluginhost/plugin_test.go Accept":                            "work",
	"engine/launch/main_test.go TestMain":                                "a process that does not end by itself",
	"engine/config":                                                      "values of a configuration",
	"tests/cuda/faults_test.go Accept":                                   "work, for longer than a deadline",
	"tests/cuda/kernel_test.go TestDeviceKernelInFlight":                 "nothing outside a device tells that a kernel runs; both outcomes pass",
	"tests/decide/faults_test.go slowly":                                 "work",
	"tests/gpu/badkernels_test.go":                                       "a look at the device costs it work, so it is seldom",
	"tests/gpu/kernels_test.go":                                          "nothing outside a device tells that a kernel runs; both outcomes pass",
	"tests/harness/build.go locked":                                      "a lock is waited for without a test",
	"plugins/push/figures_gpu_test.go":                                   "a rank is late by a time, and what that costs is measured",
	"tests/processes/agent_growth_test.go settled":                       "looks over a while, the least of which counts",
	"tests/processes/agent_growth_test.go killedJob":                     "a moment",
	"tests/processes/attach_test.go TestAttachBeforeTheFirstAnswer":      "a process stands still for longer than a deadline",
	"tests/processes/attach_test.go stop":                                "a process stands still for longer than a deadline",
	"tests/processes/limits_test.go TestThousandJoins":                   "looks over a while, the least of which counts",
	"tests/processes/slow_test.go TestJobStoppedAndContinued":            "processes stand still for longer than a deadline",
	"tests/switching/reload_faults_test.go TestGateDeadlineUnderTraffic": "a moment, and a process that stands still for longer than a deadline",
	"tests/switching/reload_test.go TestWorkersDieDuringReloads":         "a moment",
	"tests/switching/upgrade_test.go TestUpgradeUnderTraffic":            "ranks are late by a time",
	"tests/switching/upgrade_test.go TestAgentEndsInAnUpgrade":           "a moment",
}

// timed are calls that wait, and which of their arguments says for how long.
var timed = map[string]int{
	"time.After": 0, "time.AfterFunc": 0, "time.NewTimer": 0, "time.NewTicker": 0, "time.Tick": 0, "context.WithTimeout": 1,
}

// limits are names of what a test sets to a deadline.
var limits = regexp.MustCompile(`(?i)(deadline|timeout|patience|waitdelay|grace)$`)

// TestHouseDeadlines holds that tests wait for what happens, by tests/await, which knows how long is long enough here: a sleep does not put
// events in an order on a machine that is busy, and a deadline written by hand passes there.
func TestHouseDeadlines(t *testing.T) {
	used := map[string]bool{}
	goFiles(t, func(path string, fset *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "tests/harness/") && !strings.HasPrefix(path, "tests/ondevice/") {
			return
		}
		for _, d := range f.Decls {
			name := ""
			if fn, ok := d.(*ast.FuncDecl); ok {
				name = fn.Name.Name
			}
			for _, w := range byHand(d) {
				if key := excused(path, name); key != "" {
					used[key] = true
				} else {
					t.Errorf("%s: %s: wait with tests/await, or say in ownTime why not", fset.Position(w.at), w.what)
				}
			}
		}
	})
	for key := range ownTime {
		if !used[key] {
			t.Errorf("%s keeps no time of its own any more: remove it from ownTime", key)
		}
	}
}

// excused is the entry of ownTime for a function: its own, its file's or its folder's; "" for none.
func excused(path, function string) string {
	for _, key := range []string{path + " " + function, path, filepath.Dir(path)} {
		if _, ok := ownTime[key]; ok {
			return key
		}
	}
	return ""
}

type wait struct {
	at   token.Pos
	what string
}

// byHand finds sleeps, and deadlines that are neither from tests/await nor from what is.
func byHand(in ast.Node) (found []wait) {
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, wait{n.Pos(), fmt.Sprintf(format, args...)})
	}
	limit := func(name string, value ast.Expr) {
		if limits.MatchString(name) && literal(value) {
			add(value, "a literal time for %s", name)
		}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			what := selector(n.Fun)
			if what == "time.Sleep" {
				add(n, "time.Sleep")
			}
			if i, ok := timed[what]; ok && i < len(n.Args) && literal(n.Args[i]) {
				add(n, "%s of a literal time", what)
			}
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Add" && len(n.Args) == 1 && isNow(s.X) && literal(n.Args[0]) {
				add(n, "time.Now().Add of a literal time")
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				limit(id.Name, n.Value)
			}
		case *ast.AssignStmt:
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				switch to := n.Lhs[i].(type) {
				case *ast.SelectorExpr:
					limit(to.Sel.Name, n.Rhs[i])
				case *ast.Ident:
					limit(to.Name, n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := range n.Values {
				limit(n.Names[i].Name, n.Values[i])
			}
		}
		return true
	})
	return found
}

// TestHouseDeadlinesSees is what the rule finds and what it passes over.
func TestHouseDeadlinesSees(t *testing.T) {
	for code, want := range map[string]int{
		"time.Sleep(d)": 1,
		"for !ok() { time.Sleep(time.Millisecond) }":                1,
		"<-time.After(5 * time.Second)":                             1,
		"context.WithTimeout(ctx, time.Minute)":                     1,
		"for end := time.Now().Add(20 * time.Second); ; {}":         1,
		"const patience = 3 * time.Second":                          1,
		"o.CallDeadline, o.grace = 2*time.Second, time.Millisecond": 2,
		"f(Options{StartTimeout: time.Duration(3) * time.Second})":  1,
		"context.WithTimeout(ctx, await.For(time.Minute))":          0,
		"o.CallDeadline = 2 * await.For(time.Second)":               0,
		"o.CallDeadline = time.Hour":                                0,
		"x := start.Add(time.Second)":                               0,
		"time.Now().Add(deadline)":                                  0,
		"w.every = time.Second":                                     0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := byHand(f); len(found) != want {
			t.Errorf("%s: found %v, want %d", code, found, want)
		}
	}
}

func isNow(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	return ok && selector(c.Fun) == "time.Now"
}

// selector is the text of a name of a package.
func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// literal reports whether a time is written with a unit outside of a call. An hour and a nanosecond are no deadlines but never and at
// once.
func literal(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			return strings.HasPrefix(selector(c.Fun), "time.") // a conversion
		}
		if x, ok := n.(ast.Expr); ok {
			switch selector(x) {
			case "time.Microsecond", "time.Millisecond", "time.Second", "time.Minute":
				is = true
			}
		}
		return true
	})
	return is
}
