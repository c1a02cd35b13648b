// Package tests holds rules for the whole repository; what spans the engine, the SDK and the plugins is in the folders below.
package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-project/weir/"

// layer is what the packages below some folders may import.
type layer struct {
	of     string   // a folder, or a package
	except []string // folders below it with rules of their own
	weir   []string // packages of Weir that it may import, with all below them
	others []string // modules that it may import; nil is any
	why    string
}

var layers = []layer{
	{
		of: "core", weir: []string{"core"}, others: []string{"github.com/samber/lo"},
		why: "decisions are values that can be tested and shown for any machine: no I/O, transport or telemetry",
	},
	{
		of: "sdk", except: []string{"sdk/proto", "sdk/cabi"}, weir: []string{"core", "sdk"},
		why: "plugins and ranks of any engine use the SDK: it knows nothing of this engine",
	},
	{
		of: "sdk/cabi", weir: []string{"core", "sdk/rank", "sdk/cabi"}, others: []string{},
		why: "the C library offers what a rank in Go has, and nothing else",
	},
	{
		of: "sdk/proto", weir: []string{"core", "sdk/proto", "sdk/internal/ordered"},
		why: "the contracts are what both sides share, so they hold nothing of either (ordered is how a rank writes to the board)",
	},
	{
		of: "plugins", weir: []string{"core", "sdk", "plugins"},
		why: "a plugin is written against the SDK, as one outside this repository is",
	},
	{
		of: "examples", weir: []string{"core", "sdk", "examples"},
		why: "an example is what a user outside this repository can write",
	},
	{
		of: "engine", except: []string{"engine/cli", "engine/cmd"}, weir: []string{"core", "sdk/proto", "sdk/native", "engine"},
		why: "the engine meets plugins and ranks through the contract alone",
	},
	{
		of: "engine/cli", weir: []string{"core", "sdk", "engine", "examples"},
		why: "the command line puts the parts together; new backends begin as examples",
	},
}

// onlyHere are imports that one place keeps to itself.
var onlyHere = []struct {
	imports string
	in      []string
	why     string
}{
	{"github.com/hashicorp/go-plugin", []string{"engine/pluginhost", "sdk/plugin"}, "authors and the rest of the engine never see go-plugin"},
	{"github.com/knadh/koanf", []string{"engine/config"}, "the rest gets a Config value"},
	{"go.opentelemetry.io/otel/sdk", []string{"engine/telemetry", "sdk/plugin"}, "the rest uses the API, or nothing"},
	{"github.com/ebitengine/purego", []string{"sdk/native"}, "foreign code is called from one place"},
	{"C", []string{"sdk/cabi"}, "everything but the C library builds without a C compiler"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // which shows the C library too; nothing is compiled
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %s", err)
	}
	var all []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// below reports whether a package is in one of the folders.
func below(pkg string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
}

func TestLayers(t *testing.T) {
	all := listPackages(t)
	for _, l := range layers {
		n := 0
		for _, p := range all {
			pkg := strings.TrimPrefix(p.ImportPath, module)
			if !below(pkg, []string{l.of}) || below(pkg, l.except) {
				continue
			}
			n++
			for _, i := range p.Imports {
				if why := l.forbids(i); why != "" {
					t.Errorf("%s imports %s, which %s: %s", pkg, i, why, l.why)
				}
			}
		}
		if n == 0 {
			t.Errorf("no package in %s: the rule holds nothing", l.of)
		}
	}
}

func (l layer) forbids(path string) string {
	if weir, ok := strings.CutPrefix(path, module); ok {
		if !below(weir, l.weir) {
			return "is outside " + strings.Join(l.weir, ", ")
		}
		return ""
	}
	first, _, _ := strings.Cut(path, "/")
	if l.others != nil && strings.Contains(first, ".") && !below(path, l.others) {
		return "is not one of " + strings.Join(l.others, ", ")
	}
	return ""
}

// TestLayersStandardLibrary holds core to the part of the standard library that computes.
func TestLayersStandardLibrary(t *testing.T) {
	forbidden := []string{"os", "net", "time", "syscall", "io/fs", "log", "os/exec", "log/slog"}
	for _, p := range listPackages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		for _, i := range p.Imports {
			if below(pkg, []string{"core"}) && slices.Contains(forbidden, i) {
				t.Errorf("%s imports %s: core does no I/O and has no clock", pkg, i)
			}
		}
	}
}

func TestLayersKeptImports(t *testing.T) {
	all := listPackages(t)
	for _, k := range onlyHere {
		used := false
		for _, p := range all {
			pkg := strings.TrimPrefix(p.ImportPath, module)
			for _, i := range p.Imports {
				switch {
				case !below(i, []string{k.imports}):
				case below(pkg, k.in):
					used = true
				default:
					t.Errorf("%s imports %s, which only %s may: %s", pkg, i, strings.Join(k.in, " and "), k.why)
				}
			}
		}
		if !used {
			t.Errorf("nobody imports %s: the rule holds nothing", k.imports)
		}
	}
}
