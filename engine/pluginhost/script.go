package pluginhost

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// cannotRun says what is wrong with a file that the system did not run. It speaks of a missing file, and of a wrong format,
// where what is wrong is the first line of a script.
func cannotRun(path string, err error) error {
	start := beginning(path)
	interpreter, script := interpreterOf(start)
	switch {
	case script && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot run %s: its first line names the interpreter %q, which is not there: correct the line or install it", path, interpreter)
	case !script && errors.Is(err, unix.ENOEXEC) && !strings.HasPrefix(start, "\x7fELF"):
		return fmt.Errorf("cannot run %s: %w: it has no #! line that names an interpreter, such as #!/usr/bin/python3, and is no program", path, err)
	}
	return fmt.Errorf("cannot run %s: %w: is it built for this machine?", path, err)
}

// interpreterOf is the program that a script's first line names.
func interpreterOf(start string) (path string, script bool) {
	line, script := strings.CutPrefix(start, "#!")
	line, _, _ = strings.Cut(line, "\n")
	path, _, _ = strings.Cut(strings.TrimLeft(line, " \t"), " ") // as the kernel does: a carriage return belongs to it
	return path, script
}

// beginning is as much of a file as the kernel looks at.
func beginning(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256)
	n, _ := io.ReadFull(f, b)
	return string(b[:n])
}
