package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// binary is a plugin whose file was found fit to run.
type binary struct {
	spec   Spec
	path   string // absolute, without symbolic links: what was checked is what is run
	sha256 string
}

// checkAll looks at every file before anything is started.
func checkAll(specs []Spec) ([]binary, error) {
	binaries := make([]binary, len(specs))
	names := map[string]bool{}
	for i, spec := range specs {
		if spec.Name == "" {
			spec.Name = filepath.Base(spec.Path)
		}
		if err := pluginv1.CheckName(spec.Name); err != nil {
			return nil, fmt.Errorf("plugin %w", err)
		}
		if names[spec.Name] {
			return nil, fmt.Errorf("plugin %s: two plugins have this name: rename or remove one", spec.Name)
		}
		names[spec.Name] = true
		if spec.Attach != (Address{}) {
			binaries[i] = binary{spec: spec, path: spec.Attach.String()}
			continue
		}
		b, err := check(spec)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", spec.Name, err)
		}
		binaries[i] = b
	}
	return binaries, nil
}

func check(spec Spec) (binary, error) {
	if spec.Path == "" {
		return binary{}, errors.New("no path: name the executable")
	}
	path, err := filepath.Abs(spec.Path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return binary{}, fmt.Errorf("there is no file %s: correct the path or build the plugin", spec.Path)
	}
	if err != nil {
		return binary{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return binary{}, err
	case info.IsDir():
		return binary{}, fmt.Errorf("%s is a folder: name the executable in it", path)
	case !info.Mode().IsRegular():
		return binary{}, fmt.Errorf("%s is not a regular file", path)
	case unix.Access(path, unix.X_OK) != nil:
		return binary{}, fmt.Errorf("%s is not executable: chmod +x it", path)
	case info.Mode().Perm()&0o002 != 0:
		return binary{}, fmt.Errorf("%s may be changed by every user (mode %#o): chmod o-w it", path, info.Mode().Perm())
	}
	sum, err := sum(path)
	if err != nil {
		return binary{}, err
	}
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, sum) {
		return binary{}, fmt.Errorf("%s has SHA-256 %s, the configuration wants %s: use the right file or correct the checksum", path, sum, spec.SHA256)
	}
	return binary{spec: spec, path: path, sha256: sum}, nil
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Discover lists the executables of a folder by name, as specs named after their files. Hidden files, folders and what
// cannot be executed are passed over; a folder that does not exist holds none.
func Discover(dir string) ([]Spec, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find plugins: %w", err)
	}
	return lo.FilterMap(entries, func(e os.DirEntry, _ int) (Spec, bool) {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows links
		ok := err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && !strings.HasPrefix(e.Name(), ".")
		return Spec{Name: e.Name(), Path: path}, ok
	}), nil
}
