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

	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/trust"
)

// binary is a plugin whose file was found fit to run.
type binary struct {
	spec   Spec
	path   string // absolute, without symbolic links: what was checked is what is run
	sha256 string
	file   *os.File // what was checked, open; launch closes it
}

func (b binary) close() {
	if b.file != nil {
		_ = b.file.Close()
	}
}

// checkAll looks at every file before anything is started.
func checkAll(specs []Spec) (_ []binary, err error) {
	binaries := make([]binary, len(specs))
	defer func() {
		for i := range binaries {
			if err != nil {
				binaries[i].close()
			}
		}
	}()
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
	path, err := trust.Path(spec.Path)
	refused := (*trust.Refusal)(nil)
	if errors.As(err, &refused) && refused.Foreign {
		err = fmt.Errorf("%w: chown it, or copy the plugin into a folder of your own", err)
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
	case info.Size() > maxFile:
		return binary{}, fmt.Errorf("%s has %d bytes, a plugin at most %d", path, info.Size(), int64(maxFile))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return binary{}, limits.Explain(err)
	}
	sum, err := sum(f, info)
	if err != nil {
		_ = f.Close()
		return binary{}, fmt.Errorf("%s: %w", path, err)
	}
	if spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, sum) {
		_ = f.Close()
		return binary{}, fmt.Errorf("%s has SHA-256 %s, the configuration wants %s: use the right file or correct the checksum", path, sum, spec.SHA256)
	}
	return binary{spec: spec, path: path, sha256: sum, file: f}, nil
}

// maxFile bounds how long a plugin's checksum may take.
const maxFile = 4 << 30

// sum is the checksum of a file, which must be the one that was looked at.
func sum(f *os.File, looked os.FileInfo) (string, error) {
	if now, err := f.Stat(); err != nil || !os.SameFile(now, looked) {
		return "", errors.New("the file was replaced while it was looked at: try again")
	}
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
