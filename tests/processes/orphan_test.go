package processes

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// orphans are ranks whose agent, a `weir agent`, has been killed while they call.
type orphans struct {
	ranks []*exec.Cmd
	log   []*harness.Buffer
	ended []chan error
}

// orphan starts an agent and ranks, and kills the agent once they call.
func orphan(t *testing.T, folder string, env []string, program ...string) *orphans {
	t.Helper()
	const world = 3
	agent := harness.Weir(t, folder, env, "agent", "--ranks", fmt.Sprint(world), "--quiet")
	stdout, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill() })
	var variables []string
	for lines := bufio.NewScanner(stdout); len(variables) < 2 && lines.Scan(); {
		variables = append(variables, lines.Text())
	}
	o := &orphans{}
	for r := range world {
		cmd, log, ended := exec.Command(filepath.Join(harness.Bin, "programs", program[0]), program[1:]...), &harness.Buffer{}, make(chan error, 1)
		cmd.Env = append(os.Environ(), append(variables, fmt.Sprintf("WEIR_RANK=%d", r), "XDG_RUNTIME_DIR="+folder)...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		o.ranks, o.log, o.ended = append(o.ranks, cmd), append(o.log, log), append(o.ended, ended)
	}
	harness.Soon(t, "the ranks call", func() bool { r := ranksOf(t, folder, agent); return len(r) == world && r[1].Calls > 10 })
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	return o
}

// wantErrors waits for the end of the ranks but one and wants words in what each of them says.
func (o *orphans) wantErrors(t *testing.T, but int, words ...string) {
	t.Helper()
	end := time.After(await.For(await.Plenty))
	for r := range o.ranks {
		if r == but {
			continue
		}
		select {
		case err := <-o.ended[r]:
			for _, w := range words {
				if err == nil || !strings.Contains(o.log[r].String(), w) {
					t.Errorf("rank %d ended with %v; it lacks %q:\n%s", r, err, w, o.log[r])
				}
			}
		case <-end:
			t.Fatalf("rank %d does not end: %s", r, o.log[r])
		}
	}
}

// TestRankKilledWithoutAgent: the others get an error that names it long before the deadline, and it is not waited for.
func TestRankKilledWithoutAgent(t *testing.T) {
	for _, c := range []struct{ name, slots string }{{"schedule", ""}, {"worker", "fine@"}} {
		t.Run(c.name, func(t *testing.T) {
			folder := harness.RunFolder(t)
			env := []string{"WEIR_GROUP__DEADLINE=5m"}
			if c.slots != "" {
				env = append(env, badWorkers(c.slots)...)
			}
			o := orphan(t, folder, env, "badrank", "loops")
			if c.slots != "" { // the plugin ends with its engine, and no agent decides anew
				o.wantErrors(t, -1, "the worker does not answer, and the agent, which could end it, is gone")
				return
			}
			pid := o.ranks[1].Process.Pid
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-o.ended[1]
			o.wantErrors(t, 1, "group g1 has failed", fmt.Sprintf("rank 1 (process %d) has ended; it began all-reduce ", pid))
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestRankStoppedWithoutAgent: it is named at the deadline.
func TestRankStoppedWithoutAgent(t *testing.T) {
	folder, deadline := harness.RunFolder(t), await.For(500*time.Millisecond).Round(time.Millisecond).String()
	o := orphan(t, folder, []string{"WEIR_GROUP__DEADLINE=" + deadline}, "badrank", "loops")
	pid := o.ranks[1].Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	o.wantErrors(t, 1, "group g1 has failed", "within "+deadline, "rank 1 ")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-o.ended[1]
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRanksEndWellWithoutAgent: decided calls go on; what needs the agent is an error that says so, and ends nothing.
func TestRanksEndWellWithoutAgent(t *testing.T) {
	folder := harness.RunFolder(t)
	o := orphan(t, folder, nil, "badrank", "outlives the agent")
	for r := range o.ranks {
		if err := <-o.ended[r]; err != nil {
			t.Errorf("rank %d: %v\n%s", r, err, o.log[r])
		}
		for _, want := range []string{
			"a class that is not decided: decide host int32 max eager for group g1: the agent cannot be asked: it has ended",
			"a new group: new group of ranks [0 1 2]: the agent cannot be asked: it has ended",
			"memory: registered memory for group g1: the agent cannot be asked: it has ended",
			"a barrier: exchange in group g1: the agent cannot be asked: it has ended",
			"decided calls went well",
		} {
			if !strings.Contains(o.log[r].String(), want) {
				t.Errorf("rank %d lacks %q:\n%s", r, want, o.log[r])
			}
		}
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
