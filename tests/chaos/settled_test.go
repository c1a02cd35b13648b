package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
)

// TestUnsettled: an engine is compared only while its processes are those that cost what they did before.
func TestUnsettled(t *testing.T) {
	child := func(pid int, args ...string) process { return process{pid: pid, args: args} }
	reaper, one, two := child(2, "weir", "reap", "/run/w"), child(3, "/p/shm"), child(4, "/p/nccl")
	both := []pluginStatus{{Name: "shm", PID: 3}, {Name: "nccl", PID: 4}}
	zombie := two
	zombie.zombie = true
	for name, c := range map[string]struct {
		status   engineStatus
		children []process
		want     string
	}{
		"all serve":           {engineStatus{Plugins: both}, []process{reaper, one, two}, ""},
		"no plugins":          {engineStatus{}, []process{reaper}, ""},
		"one has ended":       {engineStatus{Plugins: both}, []process{reaper, one}, "process 4 of plugin nccl is gone"},
		"not yet buried":      {engineStatus{Plugins: both}, []process{reaper, one, zombie}, "process 4 has ended and is not buried"},
		"started again":       {engineStatus{Plugins: both}, []process{reaper, one, child(5, "/p/nccl")}, "process 5 (/p/nccl) is no plugin that serves"},
		"coming up":           {engineStatus{Plugins: []pluginStatus{both[0], {Name: "nccl", PID: 4, Error: "killed"}}}, []process{reaper, one, two}, "plugin nccl does not serve: killed"},
		"old beside new":      {engineStatus{Plugins: both}, []process{reaper, one, two, child(5, "/p/shm")}, "process 5 (/p/shm) is no plugin that serves"},
		"a throw-away one":    {engineStatus{Plugins: both}, []process{reaper, one, two, child(5, "weir", "trial-rank", "{}")}, "process 5 (weir trial-rank {}) is no plugin that serves"},
		"a group":             {engineStatus{Plugins: both, Groups: []struct{ ID string }{{"world"}}}, []process{reaper, one, two}, "group world is still there"},
		"a process of no arg": {engineStatus{Plugins: both}, []process{reaper, one, two, child(6, "")}, "process 6 () is no plugin that serves"},
	} {
		if got := unsettled(c.status, c.children); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLeast: one descriptor more in every look has grown, whatever else comes and goes.
func TestLeast(t *testing.T) {
	with := func(pipes, sockets, threads int) usage {
		return usage{descriptors: map[string]int{"pipe": pipes, "socket": sockets}, threads: threads}
	}
	before := least(with(13, 6, 9), with(14, 5, 8))
	if grown := with(13, 5, 8).growth(before); len(grown) > 0 || before.threads != 8 {
		t.Errorf("of %v: %v", before, grown)
	}
	if grown := least(with(14, 5, 8), with(14, 6, 8)).growth(before); strings.Join(grown, "; ") != "14 descriptors of pipe, before 13" {
		t.Errorf("one pipe more: %q", grown)
	}
	if l := least(with(1, 0, 1), usage{}); len(l.descriptors) > 0 {
		t.Errorf("what is in one look alone: %v", l.descriptors)
	}
}

// TestRestartIsNoGrowth: what an agent holds is the same at rest and when asked for while a plugin is started again; one descriptor that it
// keeps is growth, then too.
func TestRestartIsNoGrowth(t *testing.T) {
	require.Programs(t)
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	r := newRound(options{bin: bin, plant: leak}, &plan{world: 2, faults: []fault{{arg: "on workers"}}})
	if r.folder, err = os.MkdirTemp("", "wc"); err != nil { // short, for sockets
		t.Fatal(err)
	}
	defer os.RemoveAll(r.folder)
	r.ctx, r.own = await.Context(t, 2*time.Minute), t.TempDir()
	a, err := r.startAgent()
	if err != nil {
		t.Fatalf("%v\n%s", err, r.all)
	}
	defer a.kill()
	strike := func() {
		pid, err := r.shm()
		if err != nil {
			t.Fatal(err)
		}
		send(pid, syscall.SIGKILL)
	}
	rest, err := r.rests(a.pid())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		strike()
		again, err := r.rests(a.pid())
		if err != nil {
			t.Fatal(err)
		}
		if more, less := again.growth(rest), rest.growth(again); len(more)+len(less) > 0 {
			t.Fatalf("after a restart: %v more, %v less", more, less)
		}
	}
	stop := r.grow()
	strike()
	err = r.settles(a.pid(), rest)
	if err == nil || !strings.Contains(err.Error(), "has grown: ") || strings.Count(err.Error(), "descriptors of ") != 1 {
		t.Errorf("with a descriptor more: %v", err)
	}
	stop()
	if err := r.settles(a.pid(), rest); err != nil {
		t.Errorf("without it again: %v", err)
	}
}
