package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/files"
)

const weirModule = "github.com/weir-project/weir"

// unpublished is the version of what a replace stands for.
const unpublished = "v0.0.0-00010101000000-000000000000"

// maxModule is far more than go.mod and go.sum hold.
const maxModule = 16 << 20

// goModule is go.mod and go.sum. With a source tree they require the same versions as that does, so that they are complete, and
// the checksums are at hand, without Go or a network; `go mod tidy` takes out what the backend does not need.
func goModule(o Options) ([]File, error) {
	head := "module example.com/" + o.Name + "\n\n"
	if o.SDK == "" {
		if strings.Contains(o.Weir, "-dev") {
			return nil, fmt.Errorf("this is weir %s, a development build, which no module proxy has: name its source with --sdk DIR", o.Weir)
		}
		return []File{{Name: "go.mod", Data: []byte(head + "go 1.26.0\n\nrequire " + weirModule + " v" + o.Weir + "\n")}}, nil
	}
	text, err := files.Read(context.Background(), filepath.Join(o.SDK, "go.mod"), maxModule)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasPrefix(string(text), "module "+weirModule+"\n") {
		return nil, fmt.Errorf("--sdk: %s is not Weir's source: it has no go.mod of module %s", o.SDK, weirModule)
	}
	if err != nil {
		return nil, fmt.Errorf("--sdk: %w", err)
	}
	sums, err := files.Read(context.Background(), filepath.Join(o.SDK, "go.sum"), maxModule)
	if err != nil {
		return nil, fmt.Errorf("--sdk: %w", err)
	}
	language, required := requirements(string(text))
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n\nrequire %s %s\n\n", head, language, weirModule, unpublished)
	fmt.Fprintf(&b, "// Weir is used as it is there, not from a proxy.\nreplace %s => %s\n\nrequire (\n", weirModule, quoteSpaces(o.SDK))
	for _, r := range required {
		fmt.Fprintf(&b, "\t%s // indirect\n", r)
	}
	b.WriteString(")\n")
	return []File{{Name: "go.mod", Data: []byte(b.String())}, {Name: "go.sum", Data: sums}}, nil
}

// requirements are a go.mod's line of the language and the modules with their versions.
func requirements(text string) (language string, required []string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		code, _, _ := strings.Cut(line, "//")
		f := strings.Fields(code)
		switch {
		case len(f) == 2 && f[0] == "go":
			language = line
		case len(f) == 2 && f[0] == "require" && f[1] == "(":
			in = true
		case len(f) == 1 && f[0] == ")":
			in = false
		case len(f) == 3 && f[0] == "require":
			required = append(required, f[1]+" "+f[2])
		case in && len(f) == 2:
			required = append(required, f[0]+" "+f[1])
		}
	}
	return language, required
}

func quoteSpaces(path string) string {
	return lo.Ternary(strings.ContainsAny(path, " \t"), fmt.Sprintf("%q", path), path)
}
