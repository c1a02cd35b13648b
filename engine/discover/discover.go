// Package discover finds the topology of the machine that it runs on.
package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// Read is the topology that a sysfs and a procfs show. It asks no driver. It does not fail: what cannot be read is
// unknown, with a note.
func Read(sysfs, procfs fs.FS) topology.Graph {
	r := reader{sysfs: sysfs, procfs: procfs}
	host := r.host()
	g := r.gpus()
	g.Host, g.Notes = host, r.notes
	return g
}

type reader struct {
	sysfs, procfs fs.FS
	notes         []string
}

func (r *reader) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// line is the content of a file of one line; "" if it cannot be read.
func line(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// field is the value of the first "key: value" line of a file; "" if there is none.
func field(fsys fs.FS, name, key string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// cause is an error without the path, which a file system that was handed in gives relative to itself.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
