package limits

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestRoom(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	v2 := fstest.MapFS{
		"proc/meminfo":                     file("MemTotal: 9000 kB\nMemAvailable:    4096 kB\n"),
		"proc/self/cgroup":                 file("0::/a/b\n"),
		"sys/fs/cgroup/a/memory.max":       file("3000000\n"),
		"sys/fs/cgroup/a/memory.current":   file("2000000\n"),
		"sys/fs/cgroup/a/memory.stat":      file("anon 5\ninactive_file 500000\n"),
		"sys/fs/cgroup/a/b/memory.max":     file("max\n"),
		"sys/fs/cgroup/a/b/memory.current": file("10\n"),
	}
	v1 := fstest.MapFS{
		"proc/self/cgroup":                           file("9:name=systemd:/\n4:cpu,memory:/not/in/the/container\n"),
		"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1000000\n"),
		"sys/fs/cgroup/memory/memory.usage_in_bytes": file("400000\n"),
		"sys/fs/cgroup/memory/memory.stat":           file("inactive_file 1\ntotal_inactive_file 100000\n"),
	}
	for _, c := range []struct {
		root  fstest.MapFS
		bytes int64
		want  string
	}{
		{v2, 1_500_000, ""},
		{v2, 1_500_001, "the control group sys/fs/cgroup/a (the container's limit) has 1500000 left"},
		{v2, 4<<20 + 1, "the machine has 4194304 left"},
		{v1, 700_000, ""},
		{v1, 700_001, "the control group sys/fs/cgroup/memory (the container's limit) has 700000 left"},
		{fstest.MapFS{}, 1 << 60, ""},
	} {
		if err := room(c.root, c.bytes); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v, want %q", c.bytes, err, c.want)
		}
	}
	if err := Room(1 << 20); err != nil {
		t.Errorf("a megabyte: %s", err)
	}
	if err := Room(1 << 60); err == nil && available(os.DirFS("/")) < 1<<60 {
		t.Error("there is room for an exabyte")
	}
}

func TestExplain(t *testing.T) {
	for err, want := range map[error]string{syscall.EMFILE: "ulimit -n", syscall.EAGAIN: "ulimit -u", syscall.ENOMEM: "no memory left", syscall.ENFILE: "fs.file-max"} {
		wrapped := fmt.Errorf("fork: %w", err)
		if got := Explain(wrapped); !errors.Is(got, err) || !strings.Contains(got.Error(), want) || !Exhausted(wrapped) {
			t.Errorf("%v is explained as %v", wrapped, got)
		}
	}
	if other := errors.New("x"); Explain(other) != other || Exhausted(other) {
		t.Error("an error that is no limit was changed")
	}
}
