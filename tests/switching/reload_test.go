package switching

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// reloading is a run of checked calls whose plugin is replaced meanwhile.
type reloading struct {
	t      *testing.T
	folder string // of the run
	path   string // of the plugin: a link to a version
	run    *exec.Cmd
	out    bytes.Buffer
	ended  chan error
}

// startReloading starts ranks with a version of the plugin and waits until they make calls.
func startReloading(t *testing.T, version string, ranks int, checked ...string) *reloading {
	t.Helper()
	return startReloadingWith(t, nil, version, ranks, checked...)
}

// startDeadline is what a test sees pass, and a plugin that is well keeps to.
var startDeadline = await.For(2 * time.Second).Round(time.Millisecond)

// startReloadingWith is startReloading with more variables.
func startReloadingWith(t *testing.T, more []string, version string, ranks int, checked ...string) *reloading {
	t.Helper()
	r := &reloading{t: t, folder: harness.RunFolder(t), path: filepath.Join(t.TempDir(), "plugin"), ended: make(chan error, 1)}
	r.become(version)
	env := []string{
		"WEIR_PLUGINS__OWN__PATH=" + r.path, "WEIR_RESTART__FIRST=50ms", "WEIR_DEADLINES__START=" + startDeadline.String(),
		"WEIR_DEADLINES__CALL=" + await.For(time.Second).String(), "WEIR_DEADLINES__WORKER=" + await.For(500*time.Millisecond).String(),
	}
	r.run = harness.Weir(t, r.folder, append(env, more...), append([]string{"run", "-q", "-n", fmt.Sprint(ranks), "--", "checked"}, checked...)...)
	r.run.Stdout, r.run.Stderr = &r.out, &r.out
	if err := r.run.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.run.Wait() }()
	classes := 2
	if slices.Contains(checked, "-op") && !slices.Contains(checked, "-for") { // by which ranks ask each other whether time is up: a second class
		classes = 1
	}
	r.until("classes are decided", func() bool { s := r.status(); return len(s.Groups) > 0 && len(s.Groups[0].Classes) >= classes })
	return r
}

// become makes the plugin's path one of another version.
func (r *reloading) become(version string) {
	r.t.Helper()
	file := filepath.Join(filepath.Dir(r.path), version)
	if _, err := os.Stat(file); err != nil {
		program, err := os.ReadFile(filepath.Join(harness.Bin, "programs", "versioned"))
		if err == nil {
			err = os.WriteFile(file, program, 0o755)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	_ = os.Remove(r.path)
	if err := os.Symlink(file, r.path); err != nil {
		r.t.Fatal(err)
	}
}

type runState struct {
	Plugins []struct {
		Name, Version, SHA256, Error string
		PID, Restarts                int
	}
	Groups []struct {
		Epoch  uint64
		Failed string
		Switch *struct {
			Call  uint64
			Ranks []int
		}
		Ranks []struct {
			PID   int
			Calls uint64
		}
		Classes []struct {
			Class    string
			Epoch    uint64
			Backends []struct{ Backend, Serves string }
		}
	}
}

// status is what weir status says of the run; nothing if it has ended.
func (r *reloading) status() runState {
	out, err := harness.Weir(r.t, r.folder, nil, "status", "--format", "json", "--pid", r.pid()).Output()
	var all []runState
	if err != nil || json.Unmarshal(out, &all) != nil || len(all) != 1 {
		return runState{}
	}
	return all[0]
}

func (s runState) own() (pid int, version string) {
	for _, p := range s.Plugins {
		if p.Name == "own" {
			return p.PID, p.Version
		}
	}
	return 0, ""
}

func (r *reloading) until(what string, ok func() bool) {
	r.t.Helper()
	await.Until(r.t, what, func() bool {
		if ok() {
			return true
		}
		if r.over() {
			r.t.Fatalf("the run has ended before %s:\n%s", what, &r.out)
		}
		return false
	})
}

// pid names the engine: others of this user may run elsewhere.
func (r *reloading) pid() string { return fmt.Sprint(r.run.Process.Pid) }

// reload is `weir plugins reload`.
func (r *reloading) reload(args ...string) (string, error) {
	out, err := harness.Weir(r.t, r.folder, nil, append([]string{"plugins", "reload", "own", "--pid", r.pid()}, args...)...).CombinedOutput()
	return string(out), err
}

// over reports whether the run has ended.
func (r *reloading) over() bool {
	select {
	case err := <-r.ended:
		r.ended <- err
		return true
	default:
		return false
	}
}

// ends reports whether the run ends within a second.
func (r *reloading) ends() bool {
	return await.Poll(await.Lapse(time.Second), r.over)
}

// wantRight waits for the end of the run, in which every rank must have made all calls rightly.
func (r *reloading) wantRight(ranks int) {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if n := len(harness.AllRight.FindAll(r.out.Bytes(), -1)); err != nil || n != ranks {
			r.t.Errorf("%v, %d of %d ranks are right:\n%s", err, n, ranks, &r.out)
		}
	case <-time.After(await.For(2 * time.Minute)):
		_ = r.run.Process.Kill()
		r.t.Fatal("the run does not end")
	}
	if left := harness.Leftovers(r.folder); len(left) > 0 {
		r.t.Errorf("left behind: %v", left)
	}
}

var switchedAt = regexp.MustCompile(`by the new plans from all-reduce (\d+) on \(epoch (\d+)\)`)

// TestReloadUnderTraffic: a plugin is replaced again and again, by the same version and by one that plans differently,
// while ranks make checked calls.
func TestReloadUnderTraffic(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		ranks    int
		checked  string
	}{
		"schedules":      {[]string{"one", "two", "two", "small"}, 2, "-for 6s -max 20000"},
		"late schedules": {[]string{"one", "two"}, 4, "-for 6s -pause 3ms -max 20000"},
		"workers":        {[]string{"worker-one", "worker-two", "worker-two"}, 2, "-for 6s -max 20000"},
		"late workers":   {[]string{"worker-one", "worker-two"}, 3, "-for 6s -pause 3ms -max 20000"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReloading(t, c.versions[0], c.ranks, strings.Fields(c.checked)...)
			done := 0
			var last string
			for n := 1; !r.over(); n++ {
				version := c.versions[n%len(c.versions)]
				r.become(version)
				before, _ := r.status().own()
				out, err := r.reload()
				if err != nil {
					if r.ends() {
						break
					}
					t.Fatalf("reload %d: %v\n%s\n%s", n, err, out, &r.out)
				}
				if !switchedAt.MatchString(out) {
					if !r.ends() { // otherwise ranks were leaving
						t.Errorf("reload %d: %s", n, out)
					}
					break
				}
				done++
				last = out
				if s := r.status(); len(s.Groups) > 0 {
					if pid, now := s.own(); pid == before || now != version {
						t.Errorf("process %d, version %q, want another than %d, %q", pid, now, before, version)
					}
				}
			}
			t.Logf("%d reloads; the last: %s", done, last)
			if done < 1 {
				t.Errorf("%d reloads while calls went on, want some", done)
			}
			r.wantRight(c.ranks)
		})
	}
}

// TestReloadOfAVersionThatFails: calls go on by the old process, which weir status shows, and a good version is accepted
// after that.
func TestReloadOfAVersionThatFails(t *testing.T) {
	for _, c := range []struct{ first, version, want string }{
		{"one", "exits", "exit status 3"},
		{"one", "hangs", "did not come up within " + startDeadline.String()},
		{"one", "renamed", "it now offers"},
		{"one", "worker-one", "it now offers"}, // another kind
		{"one", "crashes", "signal: killed"},
		{"one", "rejected", "PLAN_REJECTED"},
		{"one", "slow", "TIMEOUT"},
		{"worker-one", "worker-wrong", "SELFTEST_FAILED"},
		{"worker-one", "worker-hangs", "TIMEOUT"},
		{"worker-one", "worker-killed", "PLUGIN_CRASHED"},
		{"worker-one", "worker-refuses", "not today"},
	} {
		t.Run(c.version+" after "+c.first, func(t *testing.T) {
			t.Parallel()
			r := startReloading(t, c.first, 2, "-calls", "1000000", "-pause", "8ms", "-max", "5000") // until it is interrupted
			before := r.status()
			r.become(c.version)
			out, err := r.reload()
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
			after := r.status()
			pid, version := after.own()
			if was, _ := before.own(); pid != was || version != c.first {
				t.Errorf("process %d of version %q, before %d of %q", pid, version, was, c.first)
			}
			if len(after.Groups) == 1 && after.Groups[0].Switch != nil {
				t.Errorf("groups %+v, before %+v", after.Groups, before.Groups)
			}
			if len(after.Groups) != 1 {
				t.Fatalf("the run has ended, or its group has: %+v\n%s", after, &r.out)
			}
			calls := after.Groups[0].Ranks[0].Calls
			r.until("calls go on", func() bool {
				now := r.status()
				return len(now.Groups) == 1 && now.Groups[0].Ranks[0].Calls > calls+20
			})
			r.become(c.first)
			if out, err := r.reload(); err != nil || !switchedAt.MatchString(out) {
				t.Errorf("the reload after that: %v\n%s", err, out)
			}
			_ = r.run.Process.Signal(os.Interrupt)
			<-r.ended
			if wrong := regexp.MustCompile(`checked: .*want`).Find(r.out.Bytes()); wrong != nil {
				t.Errorf("wrong results: %s", wrong)
			}
			if left := harness.Leftovers(r.folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestWorkersDieDuringReloads: whatever comes together, no call is wrong or lost.
func TestWorkersDieDuringReloads(t *testing.T) {
	r := startReloading(t, "worker-one", 3, "-calls", "4000", "-pause", "2ms", "-max", "20000")
	reloads := 0
	var kills atomic.Int32
	for n := 0; !r.over(); n++ {
		r.become([]string{"worker-two", "worker-one"}[n%2])
		if n%2 == 0 {
			go func() {
				time.Sleep(time.Duration(n*23%400) * time.Millisecond)
				if pid, _ := r.status().own(); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					kills.Add(1)
				}
			}()
		}
		if out, err := r.reload(); err == nil && switchedAt.MatchString(out) {
			reloads++
		} else {
			t.Log(out)
		}
	}
	t.Logf("%d reloads, %d killed processes", reloads, kills.Load())
	r.wantRight(3)
}
