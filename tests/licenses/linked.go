package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// shipped is what users get as binaries.
var shipped = []string{
	"./engine/cmd/weir", "./plugins/...", "./sdk/cabi", "./sdk/worker/weir-bridge", "./examples/verify-pass", "./examples/backend-...",
}

// module is one of others that is linked.
type module struct {
	Path, Version, Dir string
	packages           []string // the folders of those of its packages that are linked
}

type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linked are the modules in what is shipped, for each architecture, sorted.
func linked(root string) ([]module, error) {
	found := map[string]*module{}
	for _, arch := range []string{"amd64", "arm64"} {
		list := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, shipped...)...)
		list.Dir, list.Stderr = root, os.Stderr
		list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=1") // cgo shows the C library too; nothing is compiled
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if err := add(found, string(out)); err != nil {
			return nil, fmt.Errorf("what go list says: %w", err)
		}
	}
	var all []module
	for _, m := range found {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

func add(found map[string]*module, out string) error {
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &module{Path: p.Module.Path, Version: p.Module.Version, Dir: p.Module.Dir}
			found[m.Path] = m
		}
		m.packages = append(m.packages, p.Dir)
	}
}

// folders are those that may hold licences of what is linked: of the packages, and all above them in the module.
func (m module) folders() []string {
	all := map[string]bool{m.Dir: true}
	for _, dir := range m.packages {
		for ; strings.HasPrefix(dir, m.Dir) && !all[dir]; dir = filepath.Dir(dir) {
			all[dir] = true
		}
	}
	var dirs []string
	for dir := range all {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}
