package pluginhost_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/tests/await"
)

// serves asks the first backend of a host as it is now.
func serves(t *testing.T, h *pluginhost.Host) error {
	t.Helper()
	c := h.Candidates()[0]
	if c.Backend == nil {
		return c.Fault
	}
	_, err := c.Backend.Accept(t.Context(), hostRequest())
	return err
}

func crashed(err error) bool {
	var f *backend.Fault
	return errors.As(err, &f) && f.Code == backend.PluginCrashed
}

func TestKilledPluginIsRestarted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	opts, log := options(t)
	opts.Restart = pluginhost.Restart{First: 50 * time.Millisecond}
	h := start(t, opts, spec(t, "flat", "good"))
	defer h.Close()
	for n := 1; n <= 3; n++ {
		before := h.Plugins()[0]
		old := h.Candidates()[0].Backend
		if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the process's end is known", func() bool { _, err := old.Accept(t.Context(), hostRequest()); return crashed(err) })
		await.Until(t, "another serves", func() bool { return serves(t, h) == nil })
		if now := h.Plugins()[0]; now.PID == before.PID || now.Restarts != n || now.Err != nil || alive(before.PID) {
			t.Fatalf("restart %d: %+v, before %+v\n%s", n, now, before, log)
		}
		if _, err := old.Accept(t.Context(), hostRequest()); !crashed(err) {
			t.Errorf("a backend of the process that was killed answers: %v", err)
		}
	}
	if sockets, _ := filepath.Glob(filepath.Join(opts.Dir, "*", "*")); len(sockets) > 1 {
		t.Errorf("sockets are left: %v", sockets)
	}
}

func TestPluginThatKeepsCrashingIsGivenUp(t *testing.T) {
	opts, log := options(t)
	opts.Restart = pluginhost.Restart{First: time.Millisecond, Longest: 2 * time.Millisecond, Most: 3}
	h := start(t, opts, spec(t, "flat", "good:accept-exit"))
	var err error
	await.Until(t, "it is given up", func() bool {
		err = serves(t, h)
		return err != nil && strings.Contains(err.Error(), "not started again")
	})
	wantFault(t, err, backend.PluginCrashed, "plugin flat: it has ended 4 times in a row and is not started again; the last time: the plugin's process ended: exit status 5; it last said: fatal error: out of luck")
	if st := h.Plugins()[0]; st.Restarts != 3 || st.Err == nil || alive(st.PID) {
		t.Errorf("%+v", st)
	}
	if n := strings.Count(log.String(), "plugin will be restarted"); n != 3 {
		t.Errorf("%d restarts announced, want 3:\n%s", n, log)
	}
}

// TestChangedFileIsNotRestarted: what was checked is what runs, also after a crash.
func TestChangedFileIsNotRestarted(t *testing.T) {
	opts, _ := options(t)
	opts.Restart = pluginhost.Restart{First: time.Millisecond}
	s := spec(t, "flat", "good")
	program, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(t.TempDir(), "real")
	if err := os.WriteFile(real, program, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Path = filepath.Join(t.TempDir(), "flat")
	if err := os.Symlink(real, s.Path); err != nil {
		t.Fatal(err)
	}
	h := start(t, opts, s)
	if err := os.Remove(s.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", s.Path); err != nil { // of no matter: the link was followed once
		t.Fatal(err)
	}
	pid := h.Plugins()[0].PID
	_ = syscall.Kill(pid, syscall.SIGKILL)
	await.Until(t, "another serves", func() bool { return h.Plugins()[0].PID != pid && serves(t, h) == nil })

	if err := os.Rename(real, real+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, append(program, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(h.Plugins()[0].PID, syscall.SIGKILL)
	await.Until(t, "it is given up", func() bool { err = serves(t, h); return err != nil && strings.Contains(err.Error(), "has changed") })
	wantFault(t, err, backend.PluginCrashed, "its file has changed")
}

func TestCloseWhileRestarting(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, first := range []time.Duration{time.Hour, time.Nanosecond} { // waiting for the restart, and in it
		opts, _ := options(t)
		opts.Restart = pluginhost.Restart{First: first}
		h := start(t, opts, spec(t, "flat", "good"))
		pid := h.Plugins()[0].PID
		_ = syscall.Kill(pid, syscall.SIGKILL)
		await.Until(t, "it is dead", func() bool { return !alive(pid) })
		h.Close()
		if st := h.Plugins()[0]; alive(st.PID) {
			t.Errorf("process %d outlives the host", st.PID)
		}
	}
}
