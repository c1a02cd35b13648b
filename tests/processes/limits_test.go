package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// TestFewDescriptors has an engine that may open only so many files: it works, or says which limit to raise, and ends.
func TestFewDescriptors(t *testing.T) {
	refused := 0
	for _, limit := range []int{10, 14, 18, 22, 26, 30, 32, 34, 38, 44, 50, 60} {
		folder := harness.RunFolder(t)
		ctx, cancel := context.WithTimeout(t.Context(), await.For(time.Minute))
		cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("ulimit -n %d; exec %s/weir run -q --join-deadline 5s -n 3 -- badrank nothing", limit, harness.Bin))
		cmd.Env = append(harness.Weir(t, folder, nil).Env, "WEIR_DEADLINES__START="+await.For(5*time.Second).String())
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			t.Errorf("%d descriptors: it does not end:\n%s", limit, out)
		}
		cancel()
		text := string(out)
		if err != nil {
			refused++
			if !strings.Contains(text, "too many open files") && !strings.Contains(text, "may open no more") {
				t.Errorf("%d descriptors: %v without a clear error:\n%s", limit, err, text)
			}
		}
		if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
			t.Errorf("%d descriptors: a panic:\n%s", limit, text)
		}
		if left := harness.Leftovers(folder); len(left) > 0 {
			t.Errorf("%d descriptors: left behind: %v", limit, left)
		}
	}
	if refused == 0 {
		t.Error("ten descriptors were enough")
	}
}

// TestAgentWithoutDescriptors takes them away from an agent while ranks call, and gives them back: decided calls go on, what needs
// one is a clear error, and then all is well again.
func TestAgentWithoutDescriptors(t *testing.T) {
	folder := harness.RunFolder(t)
	agent := harness.Weir(t, folder, []string{"WEIR_GROUP__JOIN_DEADLINE=5s", "WEIR_GROUP__DEADLINE=5s"}, "agent", "--ranks", "2", "--quiet")
	stdout, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer agent.Process.Kill()
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	socket := strings.TrimPrefix(lines.Text(), "WEIR_AGENT_SOCKET=")
	pid := agent.Process.Pid
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) error {
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}, nil)
	}
	j := &harness.Job{}
	j.Socket = socket
	errs := j.Each(t, 2, func(s *rank.Session) error {
		g := s.World()
		if err := harness.SumIsRight(g, 100); err != nil {
			return err
		}
		if err := g.Barrier(t.Context()); err != nil {
			return err
		}
		if g.Rank() == 0 {
			if err := limit(3); err != nil { // fewer than it has: no new ones
				return err
			}
		}
		if err := errors.Join(g.Barrier(t.Context()), harness.SumIsRight(g, 100)); err != nil {
			return fmt.Errorf("a decided call: %w", err)
		}
		if _, err := s.NewGroup(t.Context(), []int{0, 1}); err == nil || !strings.Contains(err.Error(), "too many open files: weir may open no more files at a time; raise the limit (ulimit -n)") {
			return fmt.Errorf("a group without descriptors: %v", err)
		}
		if err := g.Barrier(t.Context()); err != nil {
			return err
		}
		if g.Rank() == 0 {
			if err := limit(was.Cur); err != nil {
				return err
			}
		}
		if err := g.Barrier(t.Context()); err != nil {
			return err
		}
		h, err := s.NewGroup(t.Context(), []int{0, 1})
		if err != nil {
			return err
		}
		return errors.Join(harness.SumIsRight(h, 100), harness.SumIsRight(g, 100), h.Close())
	})
	harness.NoErrors(t, errs)
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// asNobody runs a command of the programs under test as another user, in a folder of that user's.
func asNobody(t *testing.T, env []string, command string) (*exec.Cmd, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		require.Missing(t, "root", "only root can be another user")
	}
	const nobody = 65534
	programs, folder := harness.RunFolder(t), harness.RunFolder(t)
	if out, err := exec.Command("cp", "-r", harness.Bin+"/.", programs).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.Chmod(programs, 0o755), os.Chown(folder, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append([]string{"PATH=" + programs + ":" + filepath.Join(programs, "programs") + ":" + os.Getenv("PATH"), "HOME=", "XDG_RUNTIME_DIR=" + folder}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Dir = folder
	return cmd, folder
}

// TestFewProcesses has a user who may start only so many: the error says so, or names the limit as Go's runtime does, and nothing is left.
func TestFewProcesses(t *testing.T) {
	require.Tool(t, "prlimit")
	refused := 0
	for _, limit := range []int{1, 12, 20, 30, 45} {
		cmd, folder := asNobody(t, []string{"WEIR_DEADLINES__START=" + await.For(5*time.Second).String()}, fmt.Sprintf("exec prlimit --nproc=%d weir run -q --join-deadline 5s -n 3 -- badrank nothing", limit))
		out, err := cmd.CombinedOutput()
		if err != nil {
			refused++
			t.Logf("%d processes: %.400s", limit, out)
			if text := string(out); !strings.Contains(text, "ulimit -u") && !strings.Contains(text, "esource temporarily unavailable") && !strings.Contains(text, "pthread_create failed") {
				t.Errorf("%d processes: %v without a clear error:\n%s", limit, err, text)
			}
		}
		left := harness.Leftovers(folder)
		if runtimeEnded := strings.Contains(string(out), "pthread_create failed"); runtimeEnded && len(harness.ProcessesOf(folder)) == 0 {
			continue // no thread for Go's runtime, of weir or of who cleans up after it: the next run removes the folder
		}
		if len(left) > 0 {
			t.Errorf("%d processes: left behind: %v", limit, left)
		}
	}
	if refused == 0 {
		t.Error("one process was enough")
	}
}

// TestNoMemoryForSlots: a worker wants more than the machine has, in vain, and nobody is ended for it.
func TestNoMemoryForSlots(t *testing.T) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	if total := info.Totalram * uint64(info.Unit); total > 60<<30 {
		t.Skipf("the machine has %d bytes of memory, and the largest plan of 8 ranks needs 72 GiB", total)
	}
	folder := harness.RunFolder(t)
	env := append(badWorkers("fine@"), "WEIR_SHARED__MAX_BYTES=100GiB", "WEIR_PLUGINS__BAD0__ENV__SLOT_BYTES=1073741824", "WEIR_PLUGINS__BAD0__ENV__SLOTS=8")
	out, err := harness.Weir(t, folder, env, "run", "-n", "8", "--", "badrank", "nothing").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "INIT_FAILED") || !strings.Contains(string(out), "bytes of memory are needed, and the ") {
		t.Errorf("%v\n%s", err, out)
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRanksWithoutMemory: ranks may map so little that slots do not fit, which is a decline too.
func TestRanksWithoutMemory(t *testing.T) {
	folder := harness.RunFolder(t)
	env := append(badWorkers("fine@"), "WEIR_PLUGINS__BAD0__ENV__SLOT_BYTES=67108864", "WEIR_PLUGINS__BAD0__ENV__SLOTS=4")
	out, err := harness.Weir(t, folder, env, "run", "-n", "2", "--", "badrank", "little memory").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "INIT_FAILED on rank") || !strings.Contains(string(out), "cannot allocate memory") {
		t.Errorf("%v\n%s", err, out)
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestThousandJoins: jobs come and go, and an agent is as it was before.
func TestThousandJoins(t *testing.T) {
	const before, jobs = 20, 500 // of two ranks
	j := harness.StartAgent(t, 2, nil, harness.Candidate("flat", &harness.Fake{}))
	round := func(n int) {
		harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error {
			g, err := s.NewGroup(t.Context(), []int{1, 0})
			if err != nil {
				return err
			}
			if n%20 != 0 { // a decision takes longer than all the rest
				return g.Barrier(t.Context())
			}
			return errors.Join(harness.SumIsRight(s.World(), 10), harness.SumIsRight(g, 10))
		}))
	}
	type state struct {
		goroutines, descriptors, mappings int
		heap                              uint64
	}
	now := func() (s state) {
		for range 50 { // what ends, ends soon
			time.Sleep(10 * time.Millisecond)
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fds, _ := os.ReadDir("/proc/self/fd")
			maps, _ := os.ReadFile("/proc/self/maps")
			x := state{runtime.NumGoroutine(), len(fds), strings.Count(string(maps), "memfd:weir-"), m.HeapAlloc}
			if s.descriptors == 0 || x.goroutines+x.descriptors+x.mappings < s.goroutines+s.descriptors+s.mappings {
				s = x
			}
		}
		return s
	}
	for n := range before {
		round(n)
	}
	first := now()
	for n := range jobs {
		round(n)
	}
	last := now()
	t.Logf("after %d jobs %+v, after %d more %+v", before, first, jobs, last)
	if last.goroutines > first.goroutines || last.descriptors > first.descriptors || last.mappings > 0 || last.heap > first.heap+2<<20 {
		t.Errorf("it grows: %+v, then %+v", first, last)
	}
}
