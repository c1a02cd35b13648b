package processes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// waiting is how many bytes nobody has read yet.
func waiting(t *testing.T, pipe *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// endsBy sends a signal and returns the exit code that it is followed by.
func endsBy(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) int {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var exit *exec.ExitError
	if err := await.Receive(t, "the command ends", ended); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestFirstSignal: each command that waits for its input ends by the first signal, not by a second.
func TestFirstSignal(t *testing.T) {
	for _, line := range []string{
		"topo --from -", "topo --from /dev/stdin", "explain --topo -", "explain --topo /dev/fd/0", "explain --only shm-flat --topo -",
		"explain --trace -", "explain --trace /dev/stdin", "explain --diff - old.json", "explain --diff /dev/stdin old.json", "dump /dev/stdin", "config -c /dev/stdin",
		"run -c /dev/stdin -n 1 -- true", "agent -c /dev/fd/0 --ranks 2", "bench --config /dev/stdin", "plugins list -c /proc/self/fd/0",
	} {
		for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(line+" "+signal.String(), func(t *testing.T) {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				defer w.Close() // never before: there is more to come, for all that the command knows
				folder := harness.RunFolder(t)
				cmd := harness.Weir(t, folder, nil, strings.Fields(line)...)
				var stderr strings.Builder
				cmd.Stdin, cmd.Stderr = r, &stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := w.WriteString(" "); err != nil {
					t.Fatal(err)
				}
				await.Until(t, "the command reads", func() bool { return waiting(t, r) == 0 })
				if got := endsBy(t, cmd, signal); got != code || !strings.HasPrefix(stderr.String(), "weir: ended by signal") {
					t.Errorf("code %d, want %d: %s", got, code, stderr.String())
				}
				if left := harness.Leftovers(folder); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// TestNobodyReads: a command whose output is not read ends too.
func TestNobodyReads(t *testing.T) {
	for _, line := range []string{"explain --topo 8xPCIe --format json", "topo --from DGX-1 --format svg", "explain --ranks 256 --compare sglang,vllm,weir --format json"} {
		t.Run(line, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
			if err != nil {
				t.Fatal(err)
			}
			folder := harness.RunFolder(t)
			cmd := harness.Weir(t, folder, nil, strings.Fields(line)...)
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			await.Until(t, "the pipe is full", func() bool { return waiting(t, r) == size })
			if code := endsBy(t, cmd, syscall.SIGTERM); code != 143 {
				t.Errorf("code %d", code)
			}
			if left := harness.Leftovers(folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestNoFile: what has no end, or nobody at the other one, is refused in words wherever a file may be named.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.svg")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, variable, want string }{
		{"config -c PIPE", "", "a named pipe"},
		{"config -c /dev/zero", "", "a device"},
		{"run -c PIPE -n 1 -- true", "", "a named pipe"},
		{"run -n 1 -- true", "WEIR_TELEMETRY__FILE=" + pipe, "a pipe that nobody reads"},
		{"agent --ranks 1 --once", "WEIR_TELEMETRY__FILE=" + pipe, "a pipe that nobody reads"},
		{"topo --from PIPE", "", "a named pipe"},
		{"topo --from /dev/zero", "", "a device"},
		{"topo --from .", "", "a directory"},
		{"explain --topo PIPE", "", "a named pipe"},
		{"explain --trace PIPE", "", "a named pipe"},
		{"explain --trace /dev/zero", "", "a device"},
		{"explain --diff PIPE PIPE", "", "a named pipe"},
		{"explain --diff /dev/null PIPE", "", "/dev/null"},
		{"dump PIPE", "", "a named pipe"},
		{"dump /dev/zero", "", "a device"},
		{"schedule show shm-flat -o PIPE", "", "a pipe that nobody reads"},
		{"bench --ranks 2 -b 8 -e 8 --place in --seconds 0.001 --plot PIPE", "", "a pipe that nobody reads"},
		{"explain --ranks 1000000000", "", "give 1 to 1024"},
		{"explain --topo 8xH200 --hosts 100000", "", "give 1 to 1024"},
		{"run -n 1000000000 -- true", "", "give 1 to 1024"},
		{"agent --ranks 1000000000", "", "give 1 to 1024"},
		{"bench --ranks 1000000000", "", "give 1 to 1024"},
		{"bench --ranks 2 -e 1048576G", "", "bytes of memory are needed"},
		{"schedule show shm-flat --ranks 1000000000", "", "give 1 to 256"},
	} {
		t.Run(c.line+c.variable, func(t *testing.T) {
			cmd := harness.Weir(t, harness.RunFolder(t), []string{c.variable}, strings.Fields(strings.ReplaceAll(c.line, "PIPE", pipe))...)
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if last := lines[len(lines)-1]; err == nil || !strings.HasPrefix(last, "weir: ") || !strings.Contains(last, c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
		})
	}
}

// TestBounded: what goes on and on is read up to a bound, also where it comes through a pipe.
func TestBounded(t *testing.T) {
	for _, c := range []struct{ line, endless, want string }{
		{"topo --from -", "", "more than"},
		{"topo --from /dev/stdin", "", "more than"},
		{"config -c /dev/stdin", "", "larger than 1MiB; is it a configuration?"},
		{"dump /dev/stdin", "", "is not a dump of a group: too large"},
		{"explain --trace -", `{"resourceSpans": []}`, "too large: more than"},
		{"explain --diff - -", `{"version":`, "standard input"},
	} {
		t.Run(c.line, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := harness.Weir(t, harness.RunFolder(t), nil, strings.Fields(c.line)...)
			cmd.Stdin = r
			text := []byte(c.endless + strings.Repeat(" ", 1<<16) + "\n")
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				for {
					if _, err := w.Write(text); err != nil {
						return // nobody reads any more
					}
				}
			}()
			out, err := cmd.CombinedOutput()
			_ = r.Close()
			<-wrote
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %.300s, want %q", err, out, c.want)
			}
		})
	}
}
