package processes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// TestTwoUsers has another user try to get at a run: its folder, its sockets, its memory, what commands show; also when the socket is
// configured to be where everybody may connect. The other user's own runs work meanwhile.
func TestTwoUsers(t *testing.T) {
	nobody := func(command string) string {
		t.Helper()
		cmd, _ := asNobody(t, nil, command)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	nobody("true") // skips unless root
	folder, public := harness.RunFolder(t), harness.RunFolder(t)
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(public, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(public, "agent.sock")
	run := harness.Weir(t, folder, []string{"WEIR_AGENT__SOCKET=" + socket}, "run", "-q", "-n", "2", "--", "badrank", "loops")
	var log harness.Buffer
	run.Stderr = &log
	stdout, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "looping"; {
	}
	ranks := ranksOf(t, folder, run)
	if err := os.Chmod(socket, 0o777); err != nil { // as a careless umask would have it
		t.Fatal(err)
	}
	private, err := filepath.Glob(filepath.Join(folder, "weir-*"))
	if err != nil || len(private) != 1 {
		t.Fatalf("folders %v, %v", private, err)
	}
	for what, c := range map[string]struct{ command, want string }{
		"folder":           {"ls " + private[0], "Permission denied"},
		"status":           {"XDG_RUNTIME_DIR=" + folder + " weir status", "no engine of this user runs"},
		"join":             {"WEIR_RANK=0 WEIR_WORLD_SIZE=2 WEIR_AGENT_SOCKET=" + socket + " badrank nothing", "join as rank 0 of 2: the agent "},
		"a rank's memory":  {fmt.Sprintf("cat /proc/%d/mem", ranks[0].PID), "Permission denied"},
		"a rank's files":   {fmt.Sprintf("ls /proc/%d/fd", ranks[0].PID), "Permission denied"},
		"the agent's":      {fmt.Sprintf("ls /proc/%d/fd", run.Process.Pid), "Permission denied"},
		"their own run":    {"weir run -q -n 2 -- checked -calls 20", "rank 1: 20 calls, all right"},
		"their own status": {"weir run -q -n 1 -- weir status", "ranks join at"},
	} {
		if out := nobody(c.command); !strings.Contains(out, c.want) {
			t.Errorf("%s: want %q, got\n%s", what, c.want, out)
		}
	}
	if !strings.Contains(log.String(), fmt.Sprintf("of user 65534 may not join the agent of user %d", os.Geteuid())) {
		t.Errorf("the agent says nothing of the stranger:\n%s", log.String())
	}
	if now := ranksOf(t, folder, run); len(now) != 2 || now[0].Calls <= ranks[0].Calls {
		t.Errorf("the ranks call no more: %+v, then %+v", ranks, now)
	}
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
