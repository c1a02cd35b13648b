package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// state is what the system says of a process and those that it has started.
type state struct {
	files       map[string]bool // open or mapped
	descriptors int
	shared      int   // mappings of workers' memory
	memory      int64 // resident bytes that are their own
	children    []int
}

// lookAt reads /proc. A plugin may be several processes, such as a bridge and the program that it speaks for.
func lookAt(pid int) (state, error) {
	s := state{files: map[string]bool{}, children: descendants(pid)}
	if err := s.add(pid); err != nil {
		return s, err
	}
	for _, child := range s.children {
		_ = s.add(child) // it may have ended meanwhile
	}
	return s, nil
}

// add adds what is known of one process.
func (s *state) add(pid int) error {
	dir := fmt.Sprintf("/proc/%d", pid)
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return err
	}
	s.descriptors += len(open)
	for _, fd := range open {
		if name, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil {
			s.files[name] = true
		}
	}
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); len(fields) > 5 {
			name := strings.Join(fields[5:], " ")
			s.files[name] = true
			if strings.Contains(name, "memfd:weir-worker") {
				s.shared++
			}
		}
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			if err != nil {
				return err
			}
			s.memory += n << 10
		}
	}
	return nil
}

// newFiles are some names that were not open or mapped before.
func (s state) newFiles(before state) string {
	var names []string
	for name := range s.files {
		if !before.files[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(len(names), 5)], ", ")
}

// descendants are the processes that a process has started, and those that they have.
func descendants(pid int) []int {
	var all []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has just ended has none
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
				all = append(all, descendants(child)...)
			}
		}
	}
	return all
}
