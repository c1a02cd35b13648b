package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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

// least is what a process holds for certain, of two looks at it: what is on its way out is in one of them only.
func least(a, b usage) usage {
	l := usage{map[string]int{}, min(a.shared, b.shared), min(a.anonymous, b.anonymous), min(a.threads, b.threads)}
	for kind, n := range a.descriptors {
		if n = min(n, b.descriptors[kind]); n > 0 {
			l.descriptors[kind] = n
		}
	}
	return l
}
