package processes

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// byHand starts a plugin as a person does who wants to debug it, and returns its process and the handshake that it prints.
func byHand(t *testing.T, path string, env ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), append(env, "WEIR_PLUGIN=all-reduce-backend", "TMPDIR=/tmp")...) // a socket's path is short
	cmd.Stderr = &bytes.Buffer{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		lines <- line
	}()
	return cmd, strings.TrimSpace(await.Receive(t, "the handshake of "+path, lines))
}

// short is a deadline that a breakpoint would not survive, and everybody else keeps to.
var short = await.For(500 * time.Millisecond).Round(time.Millisecond)

var shortDeadlines = []string{
	"WEIR_CASCADE__ORDER=worker", "WEIR_DEADLINES__CALL=" + short.String(), "WEIR_DEADLINES__PREPARE=" + short.String(),
	"WEIR_DEADLINES__SELF_TEST=" + short.String(), "WEIR_DEADLINES__WORKER=" + (short / 2).String(), "WEIR_GROUP__DEADLINE=" + short.String(),
}

// TestAttachAtBreakpoints: a plugin that somebody started is used by one engine after another, may stand still for longer than
// any deadline, and is never ended.
func TestAttachAtBreakpoints(t *testing.T) {
	plugin, line := byHand(t, filepath.Join(harness.Bin, "examples", "backend-worker"))
	rest := strings.Split(line, "|")[3]
	for run, address := range []string{line, rest, "unix:" + rest} {
		folder := harness.RunFolder(t)
		var out logged
		cmd := harness.Weir(t, folder, shortDeadlines, "run", "-q", "--attach", "worker="+address, "-n", "2", "--", "checked", "-calls", "300", "-op", "sum")
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			out.await(t, "calling")
			stop(t, plugin.Process, 3*short)
		}
		if err := cmd.Wait(); err != nil || len(harness.AllRight.FindAllString(out.String(), -1)) != 2 || strings.Contains(out.String(), "another backend") {
			t.Fatalf("attached to %s: %v\n%s", address, err, out.String())
		}
		if left := harness.Leftovers(folder); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if err := plugin.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("the plugin is gone: %v", err)
	}
	if err := plugin.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if _, err := os.Stat(rest); err == nil {
		t.Errorf("%s is left behind", rest)
	}
}

// TestAttachBeforeTheFirstAnswer: a plugin that stands at its first breakpoint when the engine comes is waited for.
func TestAttachBeforeTheFirstAnswer(t *testing.T) {
	plugin, line := byHand(t, filepath.Join(harness.Bin, "examples", "backend-worker"))
	if err := plugin.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var out logged
	cmd := harness.Weir(t, harness.RunFolder(t), append(shortDeadlines, "WEIR_DEADLINES__START="+(10*short).String()), "run", "--attach", "worker="+line, "-n", "2", "--", "checked", "-calls", "10", "-op", "sum")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "waiting for what it offers")
	time.Sleep(2 * short) // for longer than all deadlines but the one of the start
	_ = plugin.Process.Signal(syscall.SIGCONT)
	if err := cmd.Wait(); err != nil || len(harness.AllRight.FindAllString(out.String(), -1)) != 2 {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// TestAttachedPluginEnds: what its author does to it, ranks survive.
func TestAttachedPluginEnds(t *testing.T) {
	plugin, line := byHand(t, filepath.Join(harness.Bin, "examples", "backend-worker"))
	var out logged
	cmd := harness.Weir(t, harness.RunFolder(t), shortDeadlines[:1], "run", "-q", "--attach", "worker="+line, "-n", "2", "--", "checked", "-for", "4s", "-op", "sum")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "calling")
	_ = plugin.Process.Kill()
	if err := cmd.Wait(); err != nil || len(harness.AllRight.FindAllString(out.String(), -1)) != 2 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"a call went on with another backend", "the connection to the attached plugin has ended"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

// TestAttachOfOtherCommands: whatever asks plugins asks one that somebody started, and leaves it as it is; what asks none says so.
func TestAttachOfOtherCommands(t *testing.T) {
	plugin, line := byHand(t, filepath.Join(harness.Bin, "examples", "backend-ring"))
	attach := []string{"--attach", "ring=" + line}
	for _, c := range []struct {
		command string
		code    int
		want    []string
	}{
		{"plugins list", 0, []string{"ring 0.1.0", "process " + fmt.Sprint(plugin.Process.Pid)}},
		{"plugins inspect", 0, []string{"attached to  unix:/tmp/plugin", "process      " + fmt.Sprint(plugin.Process.Pid)}},
		{"plugins test", 0, []string{" ok    results/exact", "skip  process/restart .* it is attached, so weir may not end it", "18 ok, 0 failed, 7 skipped"}},
		{"plugins test --format json --run plan/valid", 0, []string{`"path": "unix:/tmp/plugin`, `"tls": false`}},
		{"plugins test --env A=B", 2, []string{"--attach and --env do not go together"}},
		{"plugins test --attach b=/tmp/x", 2, []string{"give one plugin: its path, or --attach .*; there are 2"}},
		{"plugins inspect bin/mine", 2, []string{"give one plugin: its path, or --attach .*; there are 2"}},
		{"explain --memory host --ranks 2", 0, []string{"ring +accept"}},
		{"explain --memory host --ranks 2 --profile sglang", 2, []string{"no plugin is asked for these profiles"}},
		{"schedule show ring --ranks 2 --format text", 0, []string{"ring, 2 ranks"}},
		{"bench --ranks 2 --backend ring --sizes 1K -n 10", 0, []string{"ring", "Out of bounds values : 0"}},
		{"doctor", 2, []string{"--attach: `weir doctor` starts no plugin"}},
		{"status", 2, []string{"--attach: `weir status` starts no plugin"}},
	} {
		t.Run(c.command, func(t *testing.T) {
			cmd := harness.Weir(t, harness.RunFolder(t), nil, append(strings.Fields(c.command), attach...)...)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	if err := plugin.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the plugin is gone: %v", err)
	}
	out, err := harness.Weir(t, harness.RunFolder(t), nil, "plugins", "test", "--attach", "ring=/nowhere").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "give the address that it prints") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAttachMistakes(t *testing.T) {
	for given, want := range map[string]string{
		"worker":                             "want NAME=ADDRESS",
		"worker=":                            "no address",
		"worker=/nowhere":                    "start the plugin with WEIR_PLUGIN=all-reduce-backend and give the address that it prints",
		"worker=192.0.2.1:1":                 "not on this machine",
		"worker=what":                        `"what" is no path of a socket and no HOST:PORT`,
		"worker=1|9|unix|/nowhere|grpc":      "speaks version 9 of the plugin protocol",
		"worker=1|1|unix|/nowhere|grpc|MIIB": "an engine started this plugin",
	} {
		out, err := harness.Weir(t, harness.RunFolder(t), nil, "run", "--attach", given, "-n", "2", "--", "true").CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want %q in\n%s", given, err, want, out)
		}
	}
}

// stop stops a process for a while, as a debugger does.
func stop(t *testing.T, p *os.Process, d time.Duration) {
	t.Helper()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := p.Signal(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		time.Sleep(d)
		d = 0
	}
}

// logged is output that can be looked at while it comes.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) await(t *testing.T, text string) {
	t.Helper()
	if !await.Poll(await.For(30*time.Second), func() bool { return strings.Contains(l.String(), text) }) {
		t.Fatalf("%q does not come:\n%s", text, l.String())
	}
}
