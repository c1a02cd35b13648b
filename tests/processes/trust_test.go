package processes

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// agentAsNobody starts `weir agent` of another user with its socket at a path, whose folder it makes. Who asks can connect.
func agentAsNobody(t *testing.T, socket string) {
	t.Helper()
	cmd, _ := asNobody(t, []string{"WEIR_AGENT__SOCKET=" + socket}, "umask 0; mkdir -m 755 -p "+filepath.Dir(socket)+"; exec weir agent -q --ranks 1")
	awaitAgent(t, cmd)
}

// awaitAgent starts an agent and waits until ranks may join it.
func awaitAgent(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log harness.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatalf("the agent did not start:\n%s", log.String())
		}
	}
}

// rankAlone runs a program as the only rank of the agent at a socket.
func rankAlone(t *testing.T, socket string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(harness.Bin, "programs", "badrank"), "nothing")
	cmd.Env = append(os.Environ(), "WEIR_AGENT_SOCKET="+socket, "WEIR_RANK=0", "WEIR_WORLD_SIZE=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestStrangersAgent has an agent end, and another user put theirs in its place, as a name in /tmp that everybody could read allows.
// A rank that is told of the old one joins nothing.
func TestStrangersAgent(t *testing.T) {
	asNobody(t, nil, "true") // skips unless root
	folder := harness.RunFolder(t)
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "weir-1", "agent.sock")
	if err := os.Mkdir(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("their own", func(t *testing.T) {
		awaitAgent(t, harness.Weir(t, folder, []string{"WEIR_AGENT__SOCKET=" + socket}, "agent", "-q", "--ranks", "1"))
		if out, err := rankAlone(t, socket); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if err := os.RemoveAll(filepath.Dir(socket)); err != nil {
		t.Fatal(err)
	}
	agentAsNobody(t, socket)
	out, err := rankAlone(t, socket)
	want := "the agent's socket " + socket + " is not trusted: others could replace " + socket + ": " + filepath.Dir(socket) + " belongs to user 65534, neither you (0) nor root"
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("a folder of theirs: %v, want %q, got\n%s", err, want, out)
	}
	if err := errors.Join(os.Chown(filepath.Dir(socket), 0, 0), os.Chown(socket, 0, 0)); err != nil { // as if it had been moved into one of ours
		t.Fatal(err)
	}
	out, err = rankAlone(t, socket)
	if want := "of user 65534 listens there, neither you (0) nor root; have the socket in a folder of your own (mode 0700)"; err == nil || !strings.Contains(out, want) {
		t.Errorf("a process of theirs: %v, want %q, got\n%s", err, want, out)
	}
	link := filepath.Join(folder, "link")
	if err := errors.Join(os.Symlink(filepath.Dir(socket), link), os.Lchown(link, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	out, err = rankAlone(t, link+"/agent.sock")
	if want := link + " belongs to user 65534"; err == nil || !strings.Contains(out, want) {
		t.Errorf("a link of theirs: %v, want %q, got\n%s", err, want, out)
	}
}

// TestRootsAgent: root could do all that a user can, so a user's rank joins root's agent.
func TestRootsAgent(t *testing.T) {
	folder := harness.RunFolder(t)
	socket := filepath.Join(folder, "agent.sock")
	join, _ := asNobody(t, nil, "WEIR_RANK=0 WEIR_WORLD_SIZE=1 WEIR_AGENT_SOCKET="+socket+" badrank nothing")
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	awaitAgent(t, harness.Weir(t, folder, []string{"WEIR_AGENT__SOCKET=" + socket}, "agent", "-q", "--ranks", "1"))
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	out, _ := join.CombinedOutput() // which the agent then refuses, for it is not root's
	if strings.Contains(string(out), "trusted") || !strings.Contains(string(out), "join as rank 0 of 1: the agent ") {
		t.Errorf("%s", out)
	}
}

// TestFoldersOfSockets has the sockets of a run in folders that another user could change.
func TestFoldersOfSockets(t *testing.T) {
	const advice = "have the socket in a folder of your own (mode 0700)"
	for name, c := range map[string]struct {
		prepare func(dir string) error
		env     []string // %d for the folder
		want    []string // "" if it works
		root    bool
	}{
		"socket, others":        {func(d string) error { return os.Chmod(d, 0o777) }, []string{"WEIR_AGENT__SOCKET=%d/a"}, []string{"folder of the agent's socket: %d may be changed by other users (mode 0777): chmod go-w %d; " + advice}, false},
		"socket, group":         {func(d string) error { return os.Chmod(d, 0o770) }, []string{"WEIR_AGENT__SOCKET=%d/a"}, []string{"%d may be changed by other users (mode 0770)"}, true},
		"socket, sticky":        {func(d string) error { return os.Chmod(d, 0o777|os.ModeSticky) }, []string{"WEIR_AGENT__SOCKET=%d/a"}, []string{"%d may be changed by other users (mode 0777)"}, false},
		"socket, stranger":      {func(d string) error { return os.Chown(d, 65534, -1) }, []string{"WEIR_AGENT__SOCKET=%d/a"}, []string{"%d belongs to user 65534, neither you (0) nor root; " + advice}, true},
		"socket, below":         {func(d string) error { return errors.Join(os.Mkdir(d+"/own", 0o700), os.Chmod(d, 0o777)) }, []string{"WEIR_AGENT__SOCKET=%d/own/a"}, []string{"others could replace %d/own: %d may be changed by other users (mode 0777)"}, false},
		"socket, by a link":     {func(d string) error { return errors.Join(os.Symlink("/", d+"/l"), os.Chmod(d, 0o777)) }, []string{"WEIR_AGENT__SOCKET=%d/l/run/a"}, []string{"others could replace %d/l/run: %d may be changed"}, false},
		"socket, ours":          {func(d string) error { return os.Mkdir(d+"/own", 0o700) }, []string{"WEIR_AGENT__SOCKET=%d/own/a"}, nil, false},
		"TMPDIR, others":        {func(d string) error { return os.Chmod(d, 0o777) }, []string{"XDG_RUNTIME_DIR=", "TMPDIR=%d"}, []string{"private folder for sockets: TMPDIR: %d may be changed by other users (mode 0777): chmod go-w %d", "set TMPDIR to a folder of your own"}, false},
		"TMPDIR, below":         {func(d string) error { return errors.Join(os.Mkdir(d+"/own", 0o700), os.Chmod(d, 0o777)) }, []string{"XDG_RUNTIME_DIR=", "TMPDIR=%d/own"}, []string{"TMPDIR: others could replace %d/own: %d may be changed"}, false},
		"TMPDIR, stranger":      {func(d string) error { return os.Chown(d, 65534, -1) }, []string{"XDG_RUNTIME_DIR=", "TMPDIR=%d"}, []string{"TMPDIR: %d belongs to user 65534"}, true},
		"TMPDIR, sticky":        {func(d string) error { return os.Chmod(d, 0o777|os.ModeSticky) }, []string{"XDG_RUNTIME_DIR=", "TMPDIR=%d"}, nil, false},
		"runtime, others":       {func(d string) error { return os.Chmod(d, 0o777) }, []string{"XDG_RUNTIME_DIR=%d"}, []string{"XDG_RUNTIME_DIR: %d may be changed by other users (mode 0777)"}, false},
		"runtime, after su":     {func(d string) error { return os.Chown(d, 65534, -1) }, []string{"XDG_RUNTIME_DIR=%d", "TMPDIR=/tmp"}, nil, true},
		"runtime, then TMPDIR":  {func(d string) error { return errors.Join(os.Chown(d, 65534, -1), os.Mkdir(d+"/t", 0o700)) }, []string{"XDG_RUNTIME_DIR=%d", "TMPDIR=%d/t"}, []string{"TMPDIR: others could replace %d/t: %d belongs to user 65534"}, true},
		"socket in the private": {func(string) error { return nil }, []string{"XDG_RUNTIME_DIR=%d"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("needs root, to be another user")
			}
			dir := harness.RunFolder(t)
			if err := c.prepare(dir); err != nil {
				t.Fatal(err)
			}
			fill := strings.NewReplacer("%d", dir).Replace
			var env []string
			for _, kv := range c.env {
				env = append(env, fill(kv))
			}
			out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-q", "-n", "1", "--", "true").CombinedOutput()
			if (err == nil) != (c.want == nil) {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), fill(want)) {
					t.Errorf("want %q, got\n%s", fill(want), out)
				}
			}
		})
	}
}
