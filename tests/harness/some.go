package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Some is a new folder with some of the programs of Bin, laid out alike, for tests in which there must be no other plugin.
func Some(names ...string) (string, error) {
	dir, err := os.MkdirTemp(scratch, "bin")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		to := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			err = link(filepath.Join(Bin, name), to)
		}
		if err != nil {
			return "", fmt.Errorf("put %s into a folder: %w", name, err)
		}
	}
	return dir, nil
}

// link gives a file a second name or, where that cannot be, such as on another file system, copies it. A symbolic link would not do: weir
// looks for plugins beside its real file.
func link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
