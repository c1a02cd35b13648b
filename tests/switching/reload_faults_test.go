package switching

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/engine/telemetry/telemetrytest"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestReloadWithAStoppedRank: a rank that is stopped while the new plans are prepared ends the upgrade at its deadline; the old
// plans serve on, the rank comes back into the calls, and the next reload works.
func TestReloadWithAStoppedRank(t *testing.T) {
	t.Parallel()
	r := startReloadingWith(t, []string{"WEIR_DEADLINES__PREPARE=" + await.For(time.Second).String(), "WEIR_GROUP__DEADLINE=60s"}, "one", 3, "-for", "20s", "-pause", "1ms", "-max", "5000", "-op", "sum")
	before := r.status()
	pid := before.Groups[0].Ranks[1].PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.become("two")
	out, err := r.reload()
	if kill := syscall.Kill(pid, syscall.SIGCONT); kill != nil {
		t.Fatal(kill)
	}
	if err == nil || !strings.Contains(out, "rank 1 did not report") {
		t.Errorf("%v, want who was stopped:\n%s", err, out)
	}
	after := r.status()
	if pid, version := after.own(); version != "one" || after.Groups[0].Switch != nil || after.Groups[0].Failed != "" {
		t.Errorf("process %d of version %q, groups %+v", pid, version, after.Groups)
	}
	if out, err := r.reload(); err != nil || !switchedAt.MatchString(out) {
		t.Errorf("the reload after that: %v\n%s", err, out)
	}
	r.wantRight(3)
}

// TestReloadOfAChangedFile: one with another checksum than the configuration's is refused until the new checksum is given; from
// then on that is the one to have.
func TestReloadOfAChangedFile(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(filepath.Join(harness.Bin, "programs", "versioned"))
	if err != nil {
		t.Fatal(err)
	}
	sum := func(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }
	r := startReloadingWith(t, []string{"WEIR_PLUGINS__OWN__SHA256=" + sum(program)}, "one", 2, "-calls", "100000", "-pause", "1ms", "-max", "5000")
	changed := append(slices.Clone(program), 0) // behind what is loaded
	file := filepath.Join(filepath.Dir(r.path), "two")
	if err := os.WriteFile(file, changed, 0o755); err != nil {
		t.Fatal(err)
	}
	r.become("two")
	for _, sha256 := range []string{"", strings.Repeat("0", 64)} {
		out, err := r.reload("--sha256", sha256)
		if _, version := r.status().own(); err == nil || !strings.Contains(out, sum(changed)) || version != "one" {
			t.Errorf("with %q: %v, version %s, want to be told the checksum:\n%s", sha256, err, version, out)
		}
	}
	out, err := r.reload("--sha256", sum(changed))
	if err != nil || !switchedAt.MatchString(out) || !strings.Contains(out, sum(changed)) {
		t.Errorf("%v:\n%s", err, out)
	}
	s := r.status()
	for _, p := range s.Plugins {
		if p.Name == "own" && (p.SHA256 != sum(changed) || p.Version != "two") {
			t.Errorf("plugin %+v", p)
		}
	}
	if out, err := r.reload(); err != nil || !strings.Contains(out, sum(changed)) {
		t.Errorf("again, without a checksum: %v\n%s", err, out)
	}
	_ = r.run.Process.Signal(os.Interrupt)
	<-r.ended
	if strings.Contains(r.out.String(), "want") {
		t.Errorf("wrong results:\n%s", &r.out)
	}
}

// TestReloadsAtOnce: of several reloads of a plugin at least one works, and each says what it did or why it did nothing.
func TestReloadsAtOnce(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "one", 2, "-for", "6s", "-max", "5000")
	r.become("two")
	outs, errs := make([]string, 4), make([]error, 4)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() { outs[i], errs[i] = r.reload() })
	}
	wg.Wait()
	worked := 0
	for i, err := range errs {
		switch {
		case err == nil && switchedAt.MatchString(outs[i]):
			worked++
		case err == nil || !strings.Contains(outs[i], "reload"):
			t.Errorf("%v: %s", err, outs[i])
		}
	}
	if worked == 0 {
		t.Errorf("none worked: %q", outs)
	}
	if _, version := r.status().own(); version != "two" && !r.over() {
		t.Errorf("version %q", version)
	}
	r.wantRight(2)
}

// TestReloadIsTraced: a trace of its own with the decisions of all classes, a commit, and a switch of every rank; and a metric.
func TestReloadIsTraced(t *testing.T) {
	t.Parallel()
	collector := telemetrytest.Start(t)
	r := startReloadingWith(t, collector.Environ(), "one", 2, "-for", "5s", "-max", "5000", "-op", "sum")
	r.become("two")
	if out, err := r.reload(); err != nil || !switchedAt.MatchString(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	r.become("rejected")
	if out, err := r.reload(); err == nil {
		t.Fatalf("a plan that is wrong is taken:\n%s", out)
	}
	r.wantRight(2)
	spans := collector.Spans()
	named := func(name, parent string) (found []telemetrytest.Span) {
		for _, s := range spans {
			if s.Name == name && (parent == "" || s.Parent == parent) {
				found = append(found, s)
			}
		}
		return found
	}
	upgrades := named("weir.upgrade", "")
	if len(upgrades) != 2 {
		t.Fatalf("%d spans weir.upgrade, want 2", len(upgrades))
	}
	slices.SortFunc(upgrades, func(a, b telemetrytest.Span) int { return cmp.Compare(a.Start, b.Start) })
	if u := upgrades[1]; u.Attributes["error.type"] != "PLAN_REJECTED" || u.Attributes["weir.plugin"] != "own" {
		t.Errorf("the upgrade that failed: %+v", u)
	}
	for _, resolve := range named("weir.resolve", upgrades[0].ID) {
		if len(named("weir.prepare", resolve.ID)) != 2 || len(named("weir.selftest", resolve.ID)) != 2 {
			t.Errorf("the decision of %s has no step of each rank", resolve.Attributes["weir.op"])
		}
	}
	commits := named("weir.commit", upgrades[0].ID)
	if len(commits) != 1 || commits[0].Attributes["weir.upgrade.call"] == "" || len(named("weir.resolve", upgrades[0].ID)) == 0 {
		t.Fatalf("commits %+v, decisions %d", commits, len(named("weir.resolve", upgrades[0].ID)))
	}
	ranks := []string{}
	for _, s := range named("weir.switch", commits[0].ID) {
		ranks = append(ranks, s.Attributes["weir.rank"])
	}
	if slices.Sort(ranks); !slices.Equal(ranks, []string{"0", "1"}) {
		t.Errorf("ranks that switched: %v", ranks)
	}
	outcomes := map[string]float64{}
	for _, p := range collector.Metrics() {
		if p.Metric == "weir.upgrades" {
			outcomes[p.Attributes["weir.outcome"]] = p.Value
		}
	}
	if outcomes["switched"] != 1 || outcomes["failed"] != 1 {
		t.Errorf("weir.upgrades: %v", outcomes)
	}
}

// TestGateDeadlineUnderTraffic: a rank that is stopped at any moment of many reloads: none of the calls is lost, whether the
// switch came about or not.
func TestGateDeadlineUnderTraffic(t *testing.T) {
	t.Parallel()
	r := startReloadingWith(t, []string{"WEIR_DEADLINES__PREPARE=200ms", "WEIR_GROUP__DEADLINE=60s"}, "one", 3, "-for", "15s", "-max", "5000", "-op", "sum")
	pids := r.status().Groups[0].Ranks
	switched, refused := 0, 0
	for n := 0; !r.over() && n < 2; n++ {
		r.become([]string{"two", "one"}[n%2])
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(time.Duration(40+n*35) * time.Millisecond) // some are in a call then, some at the gate
			if syscall.Kill(pids[n%3].PID, syscall.SIGSTOP) == nil {
				time.Sleep(6 * time.Second) // a step's deadline, and the five seconds that a rank gets to say that it missed it
				_ = syscall.Kill(pids[n%3].PID, syscall.SIGCONT)
			}
		}()
		out, err := r.reload()
		if err == nil {
			switched++
		} else {
			refused++
			t.Log(out)
		}
		<-stopped
	}
	t.Logf("%d switches, %d refused", switched, refused)
	if switched+refused == 0 {
		t.Error("no reload while calls went on")
	}
	r.wantRight(3)
}
