package cli

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestConfiguredSocket holds that the socket at a configured path goes with an engine that is killed, and that one left
// behind all the same (by an engine and its reaper killed together) is no obstacle.
func TestConfiguredSocket(t *testing.T) {
	folder := harness.RunFolder(t)
	socket := filepath.Join(folder, "my.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	agent := harness.Weir(t, folder, []string{"WEIR_AGENT__SOCKET=" + socket}, "agent", "--ranks", "1", "-q")
	stdout, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if line := bufio.NewScanner(stdout); !line.Scan() || line.Text() != "WEIR_AGENT_SOCKET="+socket {
		t.Errorf("the agent printed %q", line.Text())
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestStopWhenNobodyReads asks the engine to end while its standard output is full.
func TestStopWhenNobodyReads(t *testing.T) {
	folder := harness.RunFolder(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := harness.Weir(t, folder, nil, "run", "-q", "-n", "1", "--", "sh", "-c", "echo full >&2; exec yes")
	cmd.Stdout = write
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	bufio.NewScanner(stderr).Scan() // the rank runs
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	_ = await.Receive(t, "the engine ends", ended)
	if left := harness.Leftovers(folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
