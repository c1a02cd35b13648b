package scaffold

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
)

// The languages.
const (
	Go     = "go"
	Python = "python"
	C      = "c"
)

// templateOf is an example that new backends begin as.
type templateOf struct {
	lang    string
	kind    plan.Kind
	example string   // folder
	files   []string // of it
	headers []string // of the SDK
	renames func(Options) []rename
}

var templates = []templateOf{
	{Go, plan.ScheduleKind, "backend-minimal", []string{"main.go", "main_test.go"}, nil, goRenames("minimal", `Name:        "minimal"`)},
	{
		Go, plan.KernelKind, "backend-kernel",
		[]string{"main.go", "main_test.go", "sum.cu", "sum.ptx"},
		[]string{"weir_kernel.h"},
		goRenames("kernel", `Name:        "kernel"`, "-I FOLDER_OF_weir_kernel.h ", ""),
	},
	{Go, plan.LibraryKind, "backend-library", []string{"main.go", "main_test.go"}, nil, goRenames("library", `Name:        "library"`)},
	{Go, plan.WorkerKind, "backend-worker", []string{"main.go", "main_test.go"}, nil, goRenames("worker", `Name:        "worker"`)},
	{
		Python, plan.WorkerKind, "backend-python",
		[]string{"backend.py", "weir_plugin.py", "weir_worker.py", "plugin_pb2.py", "test_backend.py"},
		nil,
		func(o Options) []rename {
			return []rename{
				{"backend.py", `name = "python"`, fmt.Sprintf("name = %q", o.Name)},
				{"backend.py", `serve("python"`, fmt.Sprintf("serve(%q", o.Name)},
			}
		},
	},
	{
		C, plan.WorkerKind, "backend-c",
		[]string{"adder.c", "weir_plugin.c", "weir_plugin.h", "vectors.c", "Makefile"},
		[]string{"weir_worker.h"},
		func(o Options) []rename {
			return []rename{
				{"adder.c", `\"name\": \"c-adder\"`, fmt.Sprintf(`\"name\": \"%s\"`, o.Name)},
				{"Makefile", "build/c-adder", "build/" + o.Name},
				{"Makefile", "../../sdk/worker", "."},
				{"Makefile", "../../bin/weir-bridge", cmp.Or(o.Bridge, "$(shell command -v weir-bridge)")},
			}
		},
	},
}

// goRenames are of main.go: the plugin's name, the backend's as the example has it, the command's, and further pairs.
func goRenames(name, backend string, more ...string) func(Options) []rename {
	return func(o Options) []rename {
		all := []rename{
			{"main.go", fmt.Sprintf("Name: %q", name), fmt.Sprintf("Name: %q", o.Name)},
			{"main.go", backend, strings.Replace(backend, name, o.Name, 1)},
			{"main.go", "Command backend-" + name, "Command " + o.Name},
		}
		for i := 0; i < len(more); i += 2 {
			all = append(all, rename{"main.go", more[i], more[i+1]})
		}
		return all
	}
}

// find is the template of a kind and language.
func find(o Options) (templateOf, error) {
	t, found := lo.Find(templates, func(t templateOf) bool { return t.lang == o.Lang && t.kind == o.Kind })
	if !found {
		return t, fmt.Errorf("no backend of kind %q in language %q can be begun; there are %s", o.Kind, o.Lang, Choices())
	}
	return t, nil
}

// Choices lists the kinds of each language.
func Choices() string {
	return strings.Join(lo.Map([]string{Go, Python, C}, func(lang string, _ int) string {
		return lang + ": " + strings.Join(lo.FilterMap(templates, func(t templateOf, _ int) (string, bool) { return string(t.kind), t.lang == lang }), ", ")
	}), "; ")
}
