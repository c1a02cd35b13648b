package launch

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sleeper starts a process that leads a group of its own.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestReap(t *testing.T) {
	for name, c := range map[string]struct {
		say          string // P and Q stand for the process groups
		first, other bool   // survive
		folder       bool   // stays
	}{
		"the engine dies":         {"P\nQ\n", false, false, false},
		"it dies while it writes": {"P\nQ", false, false, false},
		"it says nothing":         {"", true, true, false},
		"it is done":              {"P\nQ\ndone\n", true, true, true},
		"it is done at once":      {"done\nP\nQ\n", true, true, true},
		"one is forgotten":        {"P\nQ\n-P\n", true, false, false},
		"and tracked again":       {"P\n-P\nP\n", false, true, false},
		"forgotten only":          {"-P\n-Q\n", true, true, false},
		"garbage": {
			"what\n\n-\n \nPx\n0x10\n1.5\n99999999999999999999999\n\x00\xff\nDONE\ndone?\n--P\nQ\n -Q\n",
			true, false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir() + "/folder"
			if err := os.MkdirAll(folder+"/sub", 0o700); err != nil {
				t.Fatal(err)
			}
			first, other := sleeper(t), sleeper(t)
			say := strings.NewReplacer("P", strconv.Itoa(first.Process.Pid), "Q", strconv.Itoa(other.Process.Pid)).Replace(c.say)
			Reap(strings.NewReader(say), nil, folder)
			for _, p := range []struct {
				cmd      *exec.Cmd
				survives bool
			}{{first, c.first}, {other, c.other}} {
				if !p.survives {
					wantGone(t, p.cmd.Process.Pid)
				} else if !alive(p.cmd.Process.Pid) {
					t.Errorf("process %d was killed", p.cmd.Process.Pid)
				}
			}
			if _, err := os.Stat(folder); (err == nil) != c.folder {
				t.Errorf("the folder: %v, want it there: %t", err, c.folder)
			}
		})
	}
}

// TestReaper uses a process as the reaper, whose engine dies or sends it home.
func TestReaper(t *testing.T) {
	for name, dies := range map[string]bool{"the engine dies": true, "the engine ends": false} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir() + "/folder"
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			r, err := StartReaper(os.Args[0], []string{asReaper, folder})
			if err != nil {
				t.Fatal(err)
			}
			tracked, forgotten := sleeper(t), sleeper(t)
			r.Track(tracked.Process.Pid)
			r.Track(forgotten.Process.Pid)
			r.Forget(forgotten.Process.Pid)
			if dies { // then the kernel closes its end of the pipe
				_ = r.pipe.Close()
				_ = r.cmd.Wait()
				wantGone(t, tracked.Process.Pid)
			} else {
				r.Close()
				if !alive(tracked.Process.Pid) {
					t.Error("the reaper killed what the engine had not left")
				}
			}
			if !alive(forgotten.Process.Pid) {
				t.Error("the reaper killed what it was told to forget")
			}
			if _, err := os.Stat(folder); (err == nil) == dies {
				t.Errorf("the folder: %v, want it gone: %t", err, dies)
			}
			if !r.cmd.ProcessState.Success() {
				t.Errorf("the reaper ended with %s", r.cmd.ProcessState)
			}
		})
	}
}

// TestReaperThatIsKilled holds that an engine can do without.
func TestReaperThatIsKilled(t *testing.T) {
	r, err := StartReaper(os.Args[0], []string{asReaper, t.TempDir() + "/folder"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, r.cmd.Process.Pid)
	r.Track(1 << 22)
	r.Close()
}

func TestReaperCannotStart(t *testing.T) {
	if _, err := StartReaper("/nowhere/weir", nil); err == nil || !strings.Contains(err.Error(), "start the reaper: ") {
		t.Errorf("error %v", err)
	}
}

// TestReapFindsWhatWasNotTracked starts processes that the engine died too early to track, one in a group of its own.
func TestReapFindsWhatWasNotTracked(t *testing.T) {
	folder := t.TempDir()
	start := func(variable string) *exec.Cmd {
		cmd := exec.Command("sleep", "3600")
		cmd.Env = []string{variable}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	plugin, rank, other := start("DIR="+folder+"/plugin"), start("SOCKET="+folder+"/agent.sock"), start("SOCKET="+folder+"/agent.sock2")
	Reap(strings.NewReader(""), []string{"DIR=" + folder + "/", "SOCKET=" + folder + "/agent.sock"}, folder)
	for name, cmd := range map[string]*exec.Cmd{"plugin": plugin, "rank": rank} {
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("%s: %v, want killed", name, err)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of another engine: %v", err)
	}
}
