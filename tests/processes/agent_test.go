package processes

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// TestAgentServesRanksOfAnotherLauncher starts an agent, then two jobs as a launcher of one's own would.
func TestAgentServesRanksOfAnotherLauncher(t *testing.T) {
	folder := harness.RunFolder(t)
	agent := harness.Weir(t, folder, nil, "agent", "--ranks", "2", "--quiet")
	stdout, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var variables []string
	lines := bufio.NewScanner(stdout)
	for len(variables) < 2 && lines.Scan() {
		variables = append(variables, lines.Text())
	}
	if len(variables) != 2 || !strings.HasPrefix(variables[0], "WEIR_AGENT_SOCKET="+folder) || variables[1] != "WEIR_WORLD_SIZE=2" {
		t.Fatalf("the agent printed %q", variables)
	}
	for range 2 {
		var wg sync.WaitGroup
		for r := range 2 {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), harness.Bin+"/programs/calls", "-calls", "10")
				cmd.Env = append(variables, fmt.Sprintf("WEIR_RANK=%d", r))
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "10 calls") {
					t.Errorf("rank %d: %v\n%s", r, err, out)
				}
			})
		}
		wg.Wait()
	}
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := agent.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		t.Errorf("the agent ended with %v, want code 143", err)
	}
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAgentServesOnce has an agent end with its one job, also if that job never forms or nobody comes.
func TestAgentServesOnce(t *testing.T) {
	for _, c := range []struct {
		name      string
		ranks     int
		code      int
		says      string
		programOK bool
	}{{"a job", 2, 0, "", true}, {"half a job", 1, 0, "", false}, {"nobody", 0, 1, "no rank has joined within 1s", true}} {
		t.Run(c.name, func(t *testing.T) {
			folder := harness.RunFolder(t)
			agent := harness.Weir(t, folder, nil, "agent", "--ranks", "2", "--quiet", "--once", "--join-deadline", "1s")
			stdout, err := agent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			agent.Stderr = &stderr
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			var variables []string
			lines := bufio.NewScanner(stdout)
			for len(variables) < 2 && lines.Scan() {
				variables = append(variables, lines.Text())
			}
			var wg sync.WaitGroup
			for r := range c.ranks {
				wg.Go(func() {
					cmd := exec.CommandContext(t.Context(), harness.Bin+"/programs/calls", "-calls", "10")
					cmd.Env = append(variables, fmt.Sprintf("WEIR_RANK=%d", r))
					if out, err := cmd.CombinedOutput(); (err == nil) != c.programOK {
						t.Errorf("rank %d: %v\n%s", r, err, out)
					}
				})
			}
			wg.Wait()
			_ = agent.Wait()
			if code := agent.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("the agent ended with code %d, want %d with %q:\n%s", code, c.code, c.says, stderr.String())
			}
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
