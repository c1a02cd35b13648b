package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// programs is a folder of what chaos runs.
var programs = sync.OnceValues(func() (string, error) {
	return harness.Some("weir", "chaos", "plugins/shm", "plugins/nccl", "programs/checked", "programs/idle", "programs/badworker", "programs/badplugin")
})

// chaos runs the program.
func chaos(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := exec.Command(filepath.Join(bin, "chaos"), append([]string{"-bin", bin}, args...)...)
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	return out.String(), err
}

// TestSameSeedSameFaults: what happens follows from the seed alone, and what is planned is what is done.
func TestSameSeedSameFaults(t *testing.T) {
	plan := func(args ...string) string {
		out, err := chaos(t, append(args, "-plan")...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	}
	if a, b := plan("-seed", "7"), plan("-seed", "7"); a != b || strings.Count(a, "\n  +") < 1000 {
		t.Errorf("seed 7 means %d and %d faults, the same: %v", strings.Count(a, "\n  +"), strings.Count(b, "\n  +"), a == b)
	}
	if plan("-seed", "7") == plan("-seed", "8") {
		t.Error("two seeds mean the same")
	}
	few := []string{"-seed", "7", "-faults", "30"}
	if a, b := plan(few...), plan("-seed", "7"); !strings.HasPrefix(b, a) {
		t.Error("with more faults the first ones are others")
	}
	args := []string{"-seed", "7", "-scenario", "the last backend dies", "-faults", "1"}
	planned := regexp.MustCompile(`(?m)^  \+.*\)`)
	want := planned.FindAllString(plan(args...), -1)
	out, err := chaos(t, append(args, "-v")...)
	if got := planned.FindAllString(out, -1); err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v; made were\n%s\nplanned were\n%s\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"), out)
	}
}

// TestEveryKindIsPlanned: a thousand faults, and a short run, are of all kinds that there are.
func TestEveryKindIsPlanned(t *testing.T) {
	plans := options{seed: 3, enough: 1000, devices: true}.plans()
	kinds, rounds, worlds := map[string]int{}, map[*scenario]int{}, map[int]bool{}
	for _, p := range plans {
		rounds[p.scenario]++
		worlds[p.world] = true
		for _, f := range p.faults {
			kinds[f.kind]++
		}
	}
	for _, s := range scenarios {
		if rounds[s] == 0 {
			t.Errorf("no round of %q", s.name)
		}
	}
	for kind := range strikes {
		if kinds[kind] < 5 {
			t.Errorf("%d faults of the kind %q", kinds[kind], kind)
		}
	}
	for _, kind := range []string{
		rankKilled, rankStopped, rankExits, rankLate, desync + "size", desync + "type", desync + "op", engineGets + "SIGKILL", engineGets + "SIGTERM", runKilled,
		agentKilled, orphanKilled, lastKilled, quarantined, upgraded, upgradeStruck, upgradeForged, upgradeBroken + "hangs", upgradeBroken + "worker-wrong",
		"worker hangs at a tile", "worker stopped at a tile", "worker panics at a tile", "worker fails at a tile", lie + "hangs in plan", lie + "unproved plan",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no fault of the kind %q", kind)
		}
	}
	for world := 2; world <= 8; world++ {
		if !worlds[world] {
			t.Errorf("no round of %d ranks", world)
		}
	}
	t.Logf("%d faults of %d kinds in %d rounds", faultsOf(plans), len(kinds), len(plans))
}

// TestDefectsAreFound: what is wrong, lost or left behind is reported, with the seed and the command that repeats it.
func TestDefectsAreFound(t *testing.T) {
	require.Long(t)
	require.Programs(t)
	for plant, want := range map[string]string{
		"wrong sum":    `element \d+ is \d+, want \d+`,
		"lost call":    `ranks disagree|element \d+ is .*, want|different numbers of calls|did not (begin|call) `,
		"doubled call": `ranks disagree|element \d+ is .*, want|different numbers of calls|did not (begin|call) `,
		"process":      `left behind: process \d+ \(\S+/idle\)`,
		leak:           `the agent, process \d+, has grown: (\d+) descriptors of socket, before \d+\n`,
		"":             "",
	} {
		t.Run(plant, func(t *testing.T) {
			t.Parallel()
			scenario := "storm over plans"
			if plant == leak {
				scenario = "jobs"
			}
			out, err := chaos(t, "-seed", "11", "-scenario", scenario, "-faults", "1", "-plant", plant)
			if plant == "" {
				if err != nil {
					t.Errorf("without a defect: %v\n%s", err, out)
				}
				return
			}
			repeat := regexp.MustCompile(`repeat it with: ./task chaos -- -seed 11 -round (\d+) -v -plant "` + plant + `"`).FindStringSubmatch(out)
			if err == nil || repeat == nil || !regexp.MustCompile(want).MatchString(out) {
				t.Fatalf("%v, want %q and the command that repeats it:\n%s", err, want, out)
			}
			again, err := chaos(t, "-seed", "11", "-round", repeat[1], "-v", "-plant", plant)
			if err == nil || !regexp.MustCompile(want).MatchString(again) {
				t.Errorf("the same round again: %v, want %q:\n%s", err, want, again)
			}
		})
	}
}

// TestGrowthIsFound: a process that opens descriptors, maps shared memory or eats memory has grown.
func TestGrowthIsFound(t *testing.T) {
	before := usageOf(os.Getpid())
	if grown := usageOf(os.Getpid()).growth(before); len(grown) > 0 {
		t.Fatalf("nothing was done: %v", grown)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("weir-chaos", 0)
	if err == nil {
		err = unix.Ftruncate(fd, 4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	eaten := bytes.Repeat([]byte{1}, 2*breath<<10)
	grown := strings.Join(usageOf(os.Getpid()).growth(before), "\n")
	for _, want := range []string{"descriptors of pipe", "descriptors of shared memory", "mappings of shared memory", "KiB of memory"} {
		if !strings.Contains(grown, want) {
			t.Errorf("growth is\n%s\nand does not tell of %s", grown, want)
		}
	}
	eaten[0] = 2
	_, _, _, _ = r.Close(), w.Close(), unix.Munmap(memory), unix.Close(fd)
}

// TestLeftoversAreFound: files of a run, of shared memory, and sockets.
func TestLeftoversAreFound(t *testing.T) {
	r := &round{folder: t.TempDir(), own: t.TempDir(), plan: &plan{}, children: map[int]bool{}}
	before := lookAround()
	if left := r.look(before); len(left.words) > 0 {
		t.Fatalf("nothing is there: %v", left.words)
	}
	file := fmt.Sprintf("/dev/shm/weir-chaos-%d", os.Getpid())
	for _, path := range []string{file, filepath.Join(r.folder, "agent.sock")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}
	idle := exec.Command(filepath.Join(harness.Bin, "programs", "idle"))
	idle.Env = []string{}
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = idle.Process.Kill(), idle.Wait() }()
	var words string
	await.Poll(await.For(5*time.Second), func() bool {
		words = strings.Join(r.look(before).words, "\n")
		return strings.Contains(words, "programs/idle")
	})
	for _, want := range []string{file, filepath.Join(r.folder, "agent.sock"), fmt.Sprintf("process %d", idle.Process.Pid)} {
		if !strings.Contains(words, want) {
			t.Errorf("left are\n%s\nwithout %s", words, want)
		}
	}
}
