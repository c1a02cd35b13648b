// Package scaffold writes the folder of a new backend: an example with another name, and what makes it build and run by itself.
package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/template"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// Options is what a new backend is to be.
type Options struct {
	Name string // of the plugin and its backend
	Kind plan.Kind
	Lang string // go, python or c

	SDK    string // absolute path of Weir's source, for Go; "" if a release has it
	Weir   string // this version of Weir, such as "0.1.0-dev"
	Bridge string // absolute path of weir-bridge, for C; "" if it is to be found in PATH
}

// Sources are what a backend is made of.
type Sources struct {
	Examples fs.FS             // by folder
	Headers  map[string][]byte // of the SDK, by file name
}

// File is a file of the new folder.
type File struct {
	Name       string
	Data       []byte
	Executable bool
}

//go:embed text
var texts embed.FS

// Files are those of the new folder. An error is for the user.
func Files(src Sources, o Options) ([]File, error) {
	if err := pluginv1.CheckName(o.Name); err != nil {
		return nil, err
	}
	t, err := find(o)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range t.files {
		data, err := fs.ReadFile(src.Examples, path.Join(t.example, name))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Data: data, Executable: name == "backend.py"})
	}
	for _, name := range t.headers {
		files = append(files, File{Name: name, Data: src.Headers[name]})
	}
	for _, r := range t.renames(o) {
		if err := r.apply(files); err != nil {
			return nil, err
		}
	}
	if o.Lang == Go {
		module, err := goModule(o)
		if err != nil {
			return nil, err
		}
		files = append(files, module...)
	}
	for _, name := range []string{"weir.yaml", "README.md", ".gitignore"} {
		data, err := fill(name, o)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Data: data})
	}
	return files, nil
}

// Executable is where the plugin is in its folder once it is built.
func (o Options) Executable() string {
	switch o.Lang {
	case Python:
		return "backend.py"
	case C:
		return "build/" + o.Name
	}
	return "bin/" + o.Name
}

// fill makes a file of the text of its name.
func fill(name string, o Options) ([]byte, error) {
	t, err := template.New("").ParseFS(texts, "text/*.tmpl")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.ExecuteTemplate(&b, strings.TrimPrefix(name, ".")+".tmpl", o)
	return b.Bytes(), err
}

// rename replaces what the example is called; it must be there.
type rename struct{ file, from, to string }

func (r rename) apply(files []File) error {
	_, i, found := lo.FindIndexOf(files, func(f File) bool { return f.Name == r.file })
	if !found || !bytes.Contains(files[i].Data, []byte(r.from)) {
		return fmt.Errorf("the example's %s has no %q", r.file, r.from)
	}
	files[i].Data = bytes.ReplaceAll(files[i].Data, []byte(r.from), []byte(r.to))
	return nil
}
