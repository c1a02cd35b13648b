package limits

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestStart(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		a              allowance
		plugins, ranks int
		warning, fail  string
	}{
		"no limits":           {allowance{threads: unlimited, space: unlimited, cores: 256}, 100, 0, "", ""},
		"enough":              {allowance{threads: 100, used: 50, space: 4 * gib, cores: 2}, 3, 0, "", ""},
		"hardly any threads":  {allowance{threads: 60, used: 30, space: unlimited, cores: 2}, 3, 0, "60 processes and threads and has 30; the engine and what it starts take some 40 more", ""},
		"more processors":     {allowance{threads: 100, used: 50, space: unlimited, cores: 8}, 3, 0, "take some 70 more", ""},
		"no threads":          {allowance{threads: 12, used: 7, space: unlimited, cores: 2}, 3, 0, "", "this user may have 12 processes and threads and has 7"},
		"more than the limit": {allowance{threads: 12, used: 700, space: unlimited, cores: 2}, 0, 0, "", "(ulimit -u, or"},
		"many ranks":          {allowance{threads: 100, used: 50, space: unlimited, cores: 2}, 3, 8, "what it starts take some 104 more", ""},
		"too many ranks":      {allowance{threads: 100, used: 50, space: unlimited, cores: 2}, 3, 40, "", "what it starts take some 360 more"},
		"few plugins":         {allowance{threads: 36, used: 10, space: unlimited, cores: 2}, 1, 0, "", ""},
		"hardly any space":    {allowance{threads: unlimited, space: 2 * gib, cores: 2}, 3, 0, "a process may have 2048 MiB of addresses; the engine and each plugin take some 2624 MiB", ""},
		"no space":            {allowance{threads: unlimited, space: gib, cores: 2}, 0, 0, "", "a process may have 1024 MiB of addresses"},
	} {
		warning, err := start(c.a, c.plugins, c.ranks)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(warning, c.warning) || !strings.Contains(text, c.fail) || (warning == "") != (c.warning == "") || (err == nil) != (c.fail == "") {
			t.Errorf("%s: warning %q, error %v", name, warning, err)
		}
	}
}

func TestThreadsOf(t *testing.T) {
	status := func(uid, threads string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Name:\tThreads: 9\nUid:\t" + uid + "\t0\t0\t0\nThreads:\t" + threads + "\n")}
	}
	root := fstest.MapFS{
		"proc/1/status": status("7", "3"), "proc/22/status": status("7", "4"), "proc/23/status": status("77", "50"),
		"proc/24/status": {Data: []byte("Threads:\n\nUid:\n")}, "proc/self/status": status("7", "3"),
	}
	if n := threadsOf(root, 7); n != 7 {
		t.Errorf("%d threads, want 7", n)
	}
}
