package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-project/weir/engine/limits"
)

// Reaper is a small process that outlives an engine killed without warning, and then kills what the engine started and
// removes its folder. The kernel and the plugins' lifelines do most of that too; the reaper also reaches the children of
// ranks and the files.
type Reaper struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	pipe io.WriteCloser
}

// done tells the reaper that there is nothing to do.
const done = "done"

// StartReaper starts `exe args…`, which must call Reap on its standard input with the same folder.
func StartReaper(exe string, args []string) (*Reaper, error) {
	if exe == "" {
		return nil, errors.New("start the reaper: weir does not find its own executable, for /proc is not mounted: mount it (mount -t proc proc /proc)")
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // not reached by signals to the engine's group
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper: %w", limits.Explain(err))
	}
	return &Reaper{cmd: cmd, pipe: pipe}, nil
}

// Track has a process group killed if the engine is.
func (r *Reaper) Track(pgid int) { r.say(strconv.Itoa(pgid)) }

// Forget undoes Track, once the group's leader has been waited for and its number may be used again.
func (r *Reaper) Forget(pgid int) { r.say("-" + strconv.Itoa(pgid)) }

func (r *Reaper) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.pipe, line) // a reaper that was killed leaves the rest to the kernel
}

// Close sends the reaper home.
func (r *Reaper) Close() {
	r.say(done)
	_ = r.pipe.Close()
	_ = r.cmd.Wait()
}

// Reap reads what the engine tracks until the engine closes the pipe or dies, and removes the run's folder and the other
// files when it dies. It also kills, then, every process whose environment holds one of the variables (NAME=value, or NAME=folder/ for all below):
// the engine may have died between starting a process and tracking it, and children of ranks may have left the group.
func Reap(in io.Reader, variables []string, folder string, files ...string) {
	groups := map[int]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if line == done {
			return
		}
		if pgid, err := strconv.Atoi(strings.TrimPrefix(line, "-")); err == nil && pgid > 1 {
			groups[pgid] = !strings.HasPrefix(line, "-")
		}
	}
	for pgid, tracked := range groups {
		if tracked {
			_ = syscall.Kill(-pgid, syscall.SIGKILL)
		}
	}
	End(variables)
	_ = os.RemoveAll(folder)
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// End kills every process whose environment holds one of the variables, as Reap does: those that have left the group of the process that
// started them, with a session of their own, say. One that has cleared its environment is not found.
func End(variables []string) {
	for range sweeps {
		if killWith(variables) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// sweeps bounds the passes over all processes: what is killed may have started another just before.
const sweeps = 100

// killWith kills the processes of this user whose environment holds one of the variables, and says how many it found.
func killWith(variables []string) (found int) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid, err := strconv.Atoi(filepath.Base(p))
		environ, unreadable := os.ReadFile(filepath.Join(p, "environ")) // also of one that has just ended
		if err != nil || unreadable != nil || pid == os.Getpid() {
			continue
		}
		if holds(string(environ), variables) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			found++
		}
	}
	return found
}

func holds(environ string, variables []string) bool {
	for kv := range strings.SplitSeq(environ, "\x00") {
		for _, v := range variables {
			if kv == v || strings.HasSuffix(v, "/") && strings.HasPrefix(kv, v) {
				return true
			}
		}
	}
	return false
}
