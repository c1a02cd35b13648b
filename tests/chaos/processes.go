package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/tests/await"
)

// process is one of the machine's.
type process struct {
	pid, parent int
	zombie      bool
	args        []string
	environ     string // variables, each with a zero byte before and after it
}

// readProcess is what /proc says; false if the process is gone.
func readProcess(pid int) (p process, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	_, after, found := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || !found || len(fields) < 2 {
		return p, false
	}
	parent, _ := strconv.Atoi(fields[1])
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // another user's cannot be read
	return process{
		pid: pid, parent: parent, zombie: fields[0] == "Z" || fields[0] == "X",
		args: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), environ: "\x00" + string(environ),
	}, true
}

func allProcesses() (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

func (p process) has(variable string) bool {
	return strings.Contains(p.environ, "\x00"+variable+"\x00")
}

func (p process) String() string {
	return fmt.Sprintf("process %d (%s)", p.pid, strings.Join(p.args, " "))
}

// adoptOrphans has the kernel give this process every descendant whose parent has ended, so that none can hide.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// left are the processes that the round has started, those whose parents have ended too. Dead orphans are buried.
func (r *round) left() (found []process) {
	all := allProcesses()
	ours := map[int]bool{os.Getpid(): true}
	for grown := true; grown; {
		before := len(ours)
		for _, p := range all {
			if ours[p.parent] && p.pid != os.Getpid() {
				ours[p.pid] = true
			}
		}
		grown = len(ours) > before
	}
	for _, p := range all {
		switch {
		case p.pid == os.Getpid() || !ours[p.pid] && !strings.Contains(p.environ, r.folder):
		case p.zombie && p.parent == os.Getpid() && !r.started(p.pid):
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		case !p.zombie:
			found = append(found, p)
		}
	}
	return found
}

// targetPatience is how long a process that is struck may take to be there: it may be being restarted.
const targetPatience = 8 * time.Second

// target waits for a process of the round that satisfies the condition and returns the one that has run longest.
func (r *round) target(what string, is func(process) bool) (int, error) {
	for end := await.By(targetPatience); ; time.Sleep(5 * time.Millisecond) {
		pids := map[int]bool{}
		for _, p := range allProcesses() {
			if !p.zombie && strings.Contains(p.environ, r.folder) && is(p) {
				pids[p.pid] = true
			}
		}
		if len(pids) > 0 {
			return slices.Min(slices.Collect(maps.Keys(pids))), nil
		}
		if time.Now().After(end) || r.ctx.Err() != nil {
			return 0, fmt.Errorf("there is no %s to strike within %s", what, await.For(targetPatience))
		}
	}
}

// rank is the process of a rank.
func (r *round) rank(n int) (int, error) {
	return r.target(fmt.Sprintf("rank %d", n), func(p process) bool {
		return filepath.Base(p.args[0]) == "checked" && p.has(fmt.Sprintf("WEIR_RANK=%d", n))
	})
}

// plugin is a process of a plugin's file; name tells apart those that share one, "" takes any.
func (r *round) plugin(path, name string) (int, error) {
	return r.target("process of "+path, func(p process) bool {
		return p.args[0] == path && (name == "" || p.has("NAME="+name))
	})
}

// send sends a signal; a process that has just ended is no error.
func send(pid int, s syscall.Signal) { _ = syscall.Kill(pid, s) }

// pause stops a process for a time.
func pause(ctx context.Context, pid int, long time.Duration) {
	send(pid, syscall.SIGSTOP)
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
	send(pid, syscall.SIGCONT)
}
