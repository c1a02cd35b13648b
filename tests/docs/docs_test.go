package docs

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// bin has Weir's programs, laid out as `./task build` lays them out; root is its source.
var bin, root string

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// setUp fills bin and root.
func setUp(t *testing.T) {
	t.Helper()
	var err error
	if root, err = harness.Root(); err == nil {
		bin, err = harness.Some("weir", "verify-pass", "weir-bridge", "plugins/shm", "plugins/push")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlocks does what the pages for authors show, in their order: a page is one session in a folder of its own.
func TestBlocks(t *testing.T) {
	require.Long(t)
	require.Programs(t)
	setUp(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs/authors/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, path := range pages {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all, err := blocks(filepath.Base(path), string(text))
			if err != nil {
				t.Fatal(err)
			}
			s := newSession(t)
			for _, b := range all {
				t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) { s.check(t, b) })
			}
		})
	}
}

// session is what a reader does in one terminal.
type session struct {
	dir, tools string // the folder that the reader is in; a folder of programs, first in PATH
	env        []string
}

func newSession(t *testing.T) *session {
	t.Helper()
	short, err := os.MkdirTemp("/tmp", "wd") // for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	s := &session{dir: t.TempDir(), tools: t.TempDir()}
	s.env = append(os.Environ(), "WEIR="+root, "XDG_RUNTIME_DIR="+short, "GOFLAGS=-buildvcs=false", "GOWORK=off",
		"PATH="+strings.Join([]string{s.tools, bin, os.Getenv("PATH")}, ":"))
	return s
}

func (s *session) check(t *testing.T, b block) {
	switch b.marks["needs"] {
	case "":
	case "python":
		python := require.Python(t, "grpc", "numpy", "google.protobuf")
		_ = os.Symlink(python, filepath.Join(s.tools, "python3")) // it may be there from an earlier block
	default:
		require.Tool(t, b.marks["needs"])
	}
	switch {
	case b.is("norun"):
		if b.marks["norun"] == "" {
			t.Errorf("%s: norun says no reason", b)
		}
	case b.is("file"):
		included(t, b)
	case b.is("write"):
		if err := os.WriteFile(filepath.Join(s.dir, b.marks["write"]), []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
	case b.language == "sh":
		if out, err := s.run(b.text); err != nil {
			t.Fatalf("%s: %s\n%s", b, err, out)
		}
	case b.language == "console":
		s.console(t, b)
	default:
		s.compile(t, b)
	}
}

// included holds that a block is a part of a file of the repository, but for the indentation of the whole.
func included(t *testing.T, b block) {
	text, err := os.ReadFile(filepath.Join(root, b.marks["file"]))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), b.text) {
		t.Errorf("%s: %s has no such lines", b, b.marks["file"])
	}
}

func (s *session) console(t *testing.T, b block) {
	for _, x := range b.steps() {
		out, err := s.run(x.command)
		if (err != nil) != b.is("fails") {
			t.Fatalf("%s: $ %s\n%v\n%s", b, x.command, err, out)
		}
		if err := prints(out, x.output); err != nil {
			t.Errorf("%s: $ %s\n%s in\n%s", b, x.command, err, out)
		}
	}
}

// run is a command line of the reader, who then is in the folder where it ended.
func (s *session) run(commands string) (string, error) {
	patience := await.For(4 * time.Minute)
	at := filepath.Join(s.tools, "pwd")
	cmd := exec.Command("timeout", fmt.Sprint(int(patience.Seconds())), "bash", "-euo", "pipefail", "-c", "trap 'pwd >"+at+"' EXIT\n"+commands)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if dir, e := os.ReadFile(at); e == nil {
		s.dir = strings.TrimSpace(string(dir))
	}
	return string(out), err
}

// compile looks at a block by itself.
func (s *session) compile(t *testing.T, b block) {
	file := filepath.Join(t.TempDir(), "block."+b.language)
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := ""
	switch b.language {
	case "", "text": // for people
		return
	case "json":
		if !json.Valid([]byte(b.text)) {
			t.Errorf("%s: this is no JSON", b)
		}
		return
	case "yaml":
		command = "weir config -c " + file
	case "python":
		command = require.Tool(t, "python3") + " -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' " + file
	case "c":
		command = require.Tool(t, "cc") + " -fsyntax-only -Wall -Werror -I" + root + "/sdk/worker -I" + root + "/sdk/kernel " + file
	case "go":
		if _, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly); err != nil {
			t.Fatalf("%s: not a whole file: show a part of one of the repository's with file=PATH", b)
		}
		command = "d=$(mktemp -d) && weir plugins new $d/x --name x --kind schedule --sdk $WEIR >/dev/null 2>&1 && rm $d/x/*_test.go && cp " + file +
			" $d/x/main.go && cd $d/x && go vet . && rm -r $d"
	default:
		t.Errorf("%s: how is %q checked? Use file=PATH, or norun with a reason", b, b.language)
		return
	}
	if out, err := s.run("cd .; (" + command + ")"); err != nil {
		t.Errorf("%s: %s\n%s", b, err, out)
	}
}

// TestContractListsRequirements: the page has a row for each, with the name of the message and that in Go.
func TestContractListsRequirements(t *testing.T) {
	text, err := os.ReadFile("../../docs/authors/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range (backend.Requirements{}).Fields() {
		if !strings.Contains(string(text), "\n| `"+f.Name+"` | `") {
			t.Errorf("docs/authors/contract.md has no row for %s", f.Name)
		}
	}
}
