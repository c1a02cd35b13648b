package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// surroundings are what a round could leave outside its own folder.
type surroundings map[string]bool

// lookAround lists files of shared memory and message queues.
func lookAround() surroundings {
	s := surroundings{}
	for _, pattern := range []string{"/dev/shm/*weir*", "/dev/mqueue/*weir*"} {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			s[path] = true
		}
	}
	return s
}

// leavings are processes, files and sockets of a round that are there.
type leavings struct {
	words     []string
	processes []process
}

func (r *round) look(before surroundings) leavings {
	l := leavings{processes: r.left()}
	l.words, _ = filepath.Glob(filepath.Join(r.folder, "*"))
	for _, p := range l.processes {
		l.words = append(l.words, p.String())
	}
	l.words = append(append(l.words, socketsIn("/proc/net/unix", r.folder)...), before.fresh()...)
	return l
}

// leftovers is an error that lists what outlives the round. It gets a moment to go.
func (r *round) leftovers(before surroundings) error {
	l := r.look(before)
	for end := await.By(10 * time.Second); len(l.words) > 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l = r.look(before)
	}
	if len(l.words) == 0 {
		return nil
	}
	for _, p := range l.processes {
		send(p.pid, syscall.SIGKILL)
	}
	return fmt.Errorf("left behind: %s", strings.Join(l.words, "; "))
}

// fresh are the files around that were not there before.
func (s surroundings) fresh() (found []string) {
	for path := range lookAround() {
		if !s[path] {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// socketsIn are the Unix sockets, bound to a path below the folder, that some process still has.
func socketsIn(table, folder string) (found []string) {
	text, _ := os.ReadFile(table)
	for l := range strings.Lines(string(text)) {
		if i := strings.Index(l, folder+"/"); i >= 0 {
			found = append(found, "socket "+strings.TrimSpace(l[i:]))
		}
	}
	return found
}
