package pluginhost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/tests/await"
)

// spec is this test binary as a plugin.
func spec(t *testing.T, name, mode string) pluginhost.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return pluginhost.Spec{Name: name, Path: exe, Env: map[string]string{modeEnv: mode, "WEIR_TEST_BACKEND": name}}
}

// logBuffer is a log that tests can read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func options(t *testing.T) (pluginhost.Options, *logBuffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return pluginhost.Options{Dir: dir, StartTimeout: await.For(await.Plenty), CallTimeout: await.For(await.Plenty), Logger: logger}, log
}

func start(t *testing.T, opts pluginhost.Options, specs ...pluginhost.Spec) *pluginhost.Host {
	t.Helper()
	h, err := pluginhost.Start(t.Context(), specs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// alive reports whether a process runs; one that nobody has reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func TestPluginServes(t *testing.T) {
	for name, insecure := range map[string]bool{"tls": false, "insecure": true} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			opts, _ := options(t)
			var groups []int
			var mu sync.Mutex
			opts.OnStart = func(pgid int) {
				mu.Lock()
				defer mu.Unlock()
				groups = append(groups, pgid)
			}
			s := spec(t, "flat", "good")
			s.Insecure = insecure
			h, err := pluginhost.Start(t.Context(), []pluginhost.Spec{s}, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			c := h.Candidates()
			if len(c) != 1 || c[0].Plugin != "flat" || c[0].Info.Name != "flat" || c[0].Fault != nil {
				t.Fatalf("%+v", c)
			}
			d := dispatch.Resolve(t.Context(), c, hostRequest().Group, hostRequest().Class, dispatch.Options{})
			if !d.Table.Complete() {
				t.Errorf("%+v", d.Answers)
			}
			if _, err := c[0].Backend.Plan(t.Context(), hostRequest(), backend.AllBytes()); err != nil {
				t.Error(err)
			}
			st := h.Plugins()[0]
			if st.Version != "1.2.3" || st.Err != nil || !alive(st.PID) || len(st.Backends) != 1 || len(st.SHA256) != 64 || st.StartDuration <= 0 {
				t.Errorf("%+v", st)
			}
			if diff := cmp.Diff([]int{st.PID}, groups); diff != "" {
				t.Error(diff)
			}
			h.Close()
			h.Close() // again is nothing
			if alive(st.PID) {
				t.Error("the plugin outlived Close")
			}
			if left, _ := os.ReadDir(opts.Dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			_, err = c[0].Backend.Accept(t.Context(), hostRequest())
			wantFault(t, err, backend.PluginCrashed, "stopped")
		})
	}
}

func TestSecondPluginOfOneName(t *testing.T) {
	opts, _ := options(t)
	a, b := spec(t, "one", "good"), spec(t, "two", "good")
	b.Env["WEIR_TEST_BACKEND"] = "one"
	_, err := pluginhost.Start(t.Context(), []pluginhost.Spec{a, b}, opts)
	if err == nil || !strings.Contains(err.Error(), `plugin two:`) || !strings.Contains(err.Error(), `"one-plugin"`) {
		t.Errorf("got %v", err)
	}
}

func TestCancelledStart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	opts, _ := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	pid := 0
	opts.OnStart = func(pgid int) { pid = pgid; cancel() }
	_, err := pluginhost.Start(ctx, []pluginhost.Spec{spec(t, "slow", "hang")}, opts)
	if !errors.Is(err, context.Canceled) || alive(pid) {
		t.Errorf("%v, alive: %v", err, alive(pid))
	}
}

func TestChecksumAndLink(t *testing.T) {
	opts, _ := options(t)
	s := spec(t, "flat", "good")
	data, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	s.SHA256 = strings.ToUpper(hex.EncodeToString(sum[:]))
	real := s.Path
	s.Path = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, s.Path); err != nil {
		t.Fatal(err)
	}
	st := start(t, opts, s).Plugins()[0]
	if st.Path != real || !strings.EqualFold(st.SHA256, s.SHA256) {
		t.Errorf("%+v", st)
	}
}

func TestEnvironmentIsAllowListed(t *testing.T) {
	for k, v := range map[string]string{"SECRET_TOKEN": "s3cret", "NCCL_DEBUG": "INFO", "LC_ALL": "C", "TRACEPARENT": "00-1"} {
		t.Setenv(k, v)
	}
	opts, _ := options(t)
	s := spec(t, "flat", "good:env")
	s.Env["MINE"] = "yes"
	s.Env["NCCL_DEBUG"] = "WARN" // wins
	v, err := start(t, opts, s).Candidates()[0].Backend.Accept(t.Context(), hostRequest())
	if err != nil {
		t.Fatal(err)
	}
	env := "\n" + strings.ReplaceAll(v.Reasons[0].Text, "; ", "\n") + "\n" // a reason is one line
	for _, want := range []string{"\nMINE=yes\n", "\nNCCL_DEBUG=WARN\n", "\nLC_ALL=C\n", "\nTRACEPARENT=00-1\n", "\nPATH="} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in %s", want, env)
		}
	}
	if strings.Contains(env, "SECRET_TOKEN") || strings.Contains(env, "NCCL_DEBUG=INFO") {
		t.Errorf("too much in %s", env)
	}
}

func TestLogs(t *testing.T) {
	opts, log := options(t)
	h := start(t, opts, spec(t, "flat", "chatty:log"))
	if _, err := h.Candidates()[0].Backend.Accept(t.Context(), hostRequest()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`msg="{\"@message\": 1}"`, `level=WARN msg="well formed" plugin=flat k=v`, `msg=m plugin=flat @level=<nil>`,
		`yyyy …`, `level=INFO msg=asked plugin=flat backend=flat`, `msg="on stdout" plugin=flat stream=stdout`,
	} {
		await.Until(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
}

func TestGroupEndsWithThePlugin(t *testing.T) {
	for name, end := range map[string]func(*pluginhost.Host){
		"closed": (*pluginhost.Host).Close,
		"killed": func(h *pluginhost.Host) { _ = syscall.Kill(h.Plugins()[0].PID, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			opts, _ := options(t)
			s := spec(t, "flat", "parent")
			s.Env["WEIR_TEST_CHILD"] = filepath.Join(t.TempDir(), "pid")
			h := start(t, opts, s)
			var child int
			data, err := os.ReadFile(s.Env["WEIR_TEST_CHILD"])
			if _, e := fmt.Sscan(string(data), &child); e != nil || !alive(child) {
				t.Fatal(err, e, child)
			}
			end(h)
			await.Until(t, "the plugin's child is gone", func() bool { return !alive(child) })
			await.Until(t, "the plugin is known to be gone", func() bool { return h.Plugins()[0].Err != nil })
		})
	}
}

func TestSignalsAreIgnored(t *testing.T) {
	opts, _ := options(t)
	h := start(t, opts, spec(t, "flat", "good"))
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := syscall.Kill(h.Plugins()[0].PID, sig); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Candidates()[0].Backend.Accept(t.Context(), hostRequest()); err != nil {
			t.Errorf("after %s: %v", sig, err)
		}
	}
}

func TestCloseEndsAStoppedProcess(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	opts, _ := options(t)
	h := start(t, opts, spec(t, "flat", "good"))
	pid := h.Plugins()[0].PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if alive(pid) {
		t.Error("still there")
	}
}

func TestSocketFolder(t *testing.T) {
	opts, _ := options(t)
	long := filepath.Join(opts.Dir, strings.Repeat("d", 100))
	open := filepath.Join(opts.Dir, "open")
	if err := errors.Join(os.Mkdir(long, 0o700), os.Mkdir(open, 0o755)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{long: "a socket's allows", open: "want 0700", opts.Dir + "/absent": "no such file"} {
		opts.Dir = dir
		if _, err := pluginhost.Start(t.Context(), nil, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
}

func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"zeta": 0o755, "alpha": 0o700, ".hidden": 0o755, "readme": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := pluginhost.Discover(dir)
	want := []pluginhost.Spec{{Name: "alpha", Path: filepath.Join(dir, "alpha")}, {Name: "zeta", Path: filepath.Join(dir, "zeta")}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := pluginhost.Discover(filepath.Join(dir, "absent")); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	if _, err := pluginhost.Discover(filepath.Join(dir, "readme")); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// deafSocket listens and never answers.
func deafSocket() string {
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "deaf")
	if _, err := net.Listen("unix", path); err != nil {
		panic(err)
	}
	return path
}
