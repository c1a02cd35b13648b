package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	for end := time.Now().Add(10 * time.Second); len(l.words) > 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
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

// usage is what a process holds.
type usage struct {
	descriptors map[string]int // by kind
	shared      int            // mappings of shared memory of Weir's
	anonymous   int            // KiB of memory of its own that is resident
	threads     int
}

// usageOf is what a process holds now.
func usageOf(pid int) usage {
	u := usage{descriptors: map[string]int{}}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	links, _ := filepath.Glob(filepath.Join(dir, "fd", "*"))
	for _, l := range links {
		to, err := os.Readlink(l)
		if err != nil {
			continue
		}
		kind, _, _ := strings.Cut(to, ":")
		if strings.HasPrefix(to, "/") {
			kind, _, _ = strings.Cut(to, " ")
		}
		if strings.HasPrefix(kind, "/memfd") {
			kind = "shared memory"
		}
		u.descriptors[kind]++
	}
	maps, _ := os.ReadFile(filepath.Join(dir, "maps"))
	u.shared = strings.Count(string(maps), "/memfd:weir-")
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	for l := range strings.Lines(string(status)) {
		fields := strings.Fields(l)
		switch {
		case len(fields) < 2:
		case fields[0] == "RssAnon:":
			u.anonymous, _ = strconv.Atoi(fields[1])
		case fields[0] == "Threads:":
			u.threads, _ = strconv.Atoi(fields[1])
		}
	}
	return u
}

// Go's heap and threads breathe; descriptors and shared memory do not.
const (
	breath        = 24 << 10 // KiB
	breathThreads = 24
)

// growth is what a process holds more than before.
func (u usage) growth(before usage) (grown []string) {
	for kind, n := range u.descriptors {
		if was := before.descriptors[kind]; n > was {
			grown = append(grown, fmt.Sprintf("%d descriptors of %s, before %d", n, kind, was))
		}
	}
	if u.shared > before.shared {
		grown = append(grown, fmt.Sprintf("%d mappings of shared memory, before %d", u.shared, before.shared))
	}
	if u.anonymous > before.anonymous+breath {
		grown = append(grown, fmt.Sprintf("%d KiB of memory, before %d", u.anonymous, before.anonymous))
	}
	if u.threads > before.threads+breathThreads {
		grown = append(grown, fmt.Sprintf("%d threads, before %d", u.threads, before.threads))
	}
	slices.Sort(grown)
	return grown
}

// settles waits until a process holds no more than before; the error says what it holds.
func (r *round) settles(pid int, before usage) error {
	var grown []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if grown = usageOf(pid).growth(before); len(grown) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the agent, process %d, has grown: %s", pid, strings.Join(grown, "; "))
}
