package launch

import (
	"os/exec"
	"syscall"
	"testing"
)

// TestEnd: a process with a session of its own is found by what it was started with; others are left alone.
func TestEnd(t *testing.T) {
	folder := t.TempDir()
	start := func(variable string) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Env, cmd.SysProcAttr = []string{variable}, &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Skipf("no sleep here: %s", err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	left, other := start("PLUGIN_UNIX_SOCKET_DIR="+folder+"/1"), start("PLUGIN_UNIX_SOCKET_DIR="+folder+"x/1")
	End([]string{"PLUGIN_UNIX_SOCKET_DIR=" + folder + "/"})
	if err := left.Wait(); err == nil || left.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another's process: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}
