package pluginhost_test

import (
	"crypto/sha256"
	"encoding/hex"
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

// fileOf is a spec whose file is a copy, which a test may change.
func fileOf(t *testing.T, s pluginhost.Spec) (pluginhost.Spec, []byte) {
	t.Helper()
	program, err := os.ReadFile(s.Path)
	if err == nil {
		s.Path = filepath.Join(t.TempDir(), "plugin")
		err = os.WriteFile(s.Path, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, program
}

// replace puts another program where the file was, as an installer does.
func replace(t *testing.T, path string, program []byte) (sum string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(program)
	return hex.EncodeToString(s[:])
}

func TestReload(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	opts, _ := options(t)
	opts.Restart = pluginhost.Restart{First: 20 * time.Millisecond}
	s, program := fileOf(t, spec(t, "flat", "good"))
	first := sha256.Sum256(program)
	s.SHA256 = hex.EncodeToString(first[:])
	h := start(t, opts, s)
	defer h.Close()
	before := h.Plugins()[0]
	old := h.Candidates()[0]

	sum := replace(t, s.Path, append(program, 0))
	if _, err := h.Reload(t.Context(), "flat", ""); err == nil || !strings.Contains(err.Error(), "has SHA-256 "+sum) {
		t.Errorf("a file of another checksum: %v", err)
	}
	if _, err := h.Reload(t.Context(), "round", ""); err == nil || !strings.Contains(err.Error(), `no plugin "round"`) {
		t.Errorf("no such plugin: %v", err)
	}
	r, err := h.Reload(t.Context(), "flat", strings.ToUpper(sum))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(t.Context(), "flat", sum); err == nil || !strings.Contains(err.Error(), "another reload") {
		t.Errorf("two at once: %v", err)
	}
	if now := h.Plugins()[0]; now.PID != before.PID || r.Status().PID == before.PID || r.Replaced() != old.Process {
		t.Errorf("it serves before it is accepted: %+v, %+v", now, r.Status())
	}
	if c := r.Candidates()[0]; c.Process == old.Process || c.Info.Name != old.Info.Name {
		t.Errorf("candidates to be: %+v", c)
	}
	if err := r.Accept(); err != nil {
		t.Fatal(err)
	}
	if now := h.Plugins()[0]; now.PID != r.Status().PID || now.SHA256 != sum || serves(t, h) != nil {
		t.Errorf("accepted: %+v", now)
	}
	if _, err := old.Backend.Accept(t.Context(), hostRequest()); err != nil {
		t.Errorf("the old process ended before its time: %v", err)
	}
	r.Retire(t.Context())
	if alive(before.PID) {
		t.Error("the old process was not retired")
	}

	// The new one is supervised, with its file.
	_ = syscall.Kill(r.Status().PID, syscall.SIGKILL)
	await.Until(t, "another serves", func() bool { return h.Plugins()[0].PID != r.Status().PID && serves(t, h) == nil })
	h.Kill(h.Candidates()[0].Process, syscall.ETIMEDOUT)
	await.Until(t, "yet another serves", func() bool { return h.Plugins()[0].Restarts == 2 && serves(t, h) == nil })
}

func TestRefusedReload(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	opts, _ := options(t)
	h := start(t, opts, spec(t, "flat", "good"))
	defer h.Close()
	before := h.Plugins()[0].PID
	for range 2 {
		r, err := h.Reload(t.Context(), "flat", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Refuse(t.Context())
		if alive(r.Status().PID) || h.Plugins()[0].PID != before || serves(t, h) != nil {
			t.Errorf("after a refusal: %+v", h.Plugins()[0])
		}
	}
	r, err := h.Reload(t.Context(), "flat", "")
	if err != nil {
		t.Fatal(err)
	}
	h.Close() // in the middle
	if err := r.Accept(); err == nil || alive(r.Status().PID) || alive(before) {
		t.Errorf("after Close: %v", err)
	}
}

// TestReloadMendsAPlugin that was given up because its file changed under it.
func TestReloadMendsAPlugin(t *testing.T) {
	opts, _ := options(t)
	opts.Restart = pluginhost.Restart{First: time.Millisecond}
	s, program := fileOf(t, spec(t, "flat", "good"))
	h := start(t, opts, s)
	replace(t, s.Path, append(program, 0))
	_ = syscall.Kill(h.Plugins()[0].PID, syscall.SIGKILL)
	var err error
	await.Until(t, "it is given up", func() bool {
		err = serves(t, h)
		return err != nil && strings.Contains(err.Error(), "`weir plugins reload flat` accepts it")
	})
	wantFault(t, err, backend.PluginCrashed, "its file has changed")
	r, err := h.Reload(t.Context(), "flat", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Accept(); err != nil || serves(t, h) != nil {
		t.Errorf("%v, %+v", err, h.Plugins()[0])
	}
	_ = syscall.Kill(h.Plugins()[0].PID, syscall.SIGKILL)
	await.Until(t, "it is supervised again", func() bool { return h.Plugins()[0].Restarts == 1 && serves(t, h) == nil })
}
