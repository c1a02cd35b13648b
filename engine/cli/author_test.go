package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/scaffold"
	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// folder is a bin folder with a shipped plugin, and a plugin of somebody's elsewhere.
func folder(t *testing.T) (exe, shipped, other string) {
	t.Helper()
	dir := t.TempDir()
	exe, shipped, other = filepath.Join(dir, "weir"), filepath.Join(dir, "plugins", "shm"), filepath.Join(dir, "shm")
	if err := os.Mkdir(filepath.Dir(shipped), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{shipped, other} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return exe, shipped, other
}

// TestReplacedPlugin: a plugin of the folder does not vanish without a word when another file has its name.
func TestReplacedPlugin(t *testing.T) {
	exe, shipped, other := folder(t)
	for name, c := range map[string]struct {
		plugin config.Plugin
		path   string // of what is started
		warned bool
	}{
		"another file": {config.Plugin{Path: other}, other, true},
		"the same":     {config.Plugin{Path: shipped}, shipped, false},
		"disabled":     {config.Plugin{Path: other, Disabled: true}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			cfg := config.Default(exe)
			cfg.Plugins = map[string]config.Plugin{"shm": c.plugin}
			specs, err := pluginSpecs(cfg, nil, slog.New(slog.NewTextHandler(&log, nil)))
			path := ""
			for _, s := range specs {
				path += s.Path
			}
			if err != nil || path != c.path {
				t.Errorf("%+v, %v, want %q", specs, err, c.path)
			}
			want := fmt.Sprintf("level=WARN msg=\"a plugin of plugin_dir is replaced by another file\" plugin=shm replaced=%s path=%s\n", shipped, other)
			if c.warned != strings.HasSuffix(log.String(), want) || !c.warned && log.Len() > 0 {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

// TestNewRefusesShippedNames: a new backend takes no shipped plugin's place.
func TestNewRefusesShippedNames(t *testing.T) {
	exe, shipped, _ := folder(t)
	a := &app{exe: exe, stdout: io.Discard, stderr: io.Discard, ending: &ending{}}
	o := scaffold.Options{Name: "shm", Kind: plan.WorkerKind, Lang: scaffold.Python}
	dir := filepath.Join(t.TempDir(), "new")
	want := "--name: shm would replace the plugin " + shipped + ": choose another name"
	if err := a.writeNew(t.Context(), dir, o); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	o.Name = "shm-of-mine"
	if err := a.writeNew(t.Context(), dir, o); err != nil {
		t.Error(err)
	}
}

// TestBenchCheckIsNoConfiguration: -c is --config with every other command.
func TestBenchCheckIsNoConfiguration(t *testing.T) {
	for line, hint := range map[string]bool{"bench -c weir.yaml": true, "bench --check=x": true, "bench -n weir.yaml": false} {
		var stderr bytes.Buffer
		root := (&app{stdout: io.Discard, stderr: &stderr, ending: &ending{}}).root()
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		var usage usageError
		if !errors.As(err, &usage) || strings.Contains(err.Error(), "(--config FILE is the configuration) (see `weir bench --help`)") != hint {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestAskedOfWhatIsServed: --only asks about a type and op that the backend advertises, unless the command line says.
func TestAskedOfWhatIsServed(t *testing.T) {
	single := backend.Requirements{DataTypes: []collective.DataType{collective.Float32}, Ops: []collective.Op{collective.Max, collective.Min}}
	both := backend.Requirements{DataTypes: []collective.DataType{collective.Float16, collective.BFloat16}, Ops: collective.Ops()}
	for line, c := range map[string]struct {
		serves backend.Requirements
		want   string
	}{
		"":                         {single, "float32 max"},
		"--p2p verified":           {both, "bfloat16 sum"},
		"--topo 8xPCIe":            {backend.Requirements{}, "bfloat16 sum"},
		"--dtype bfloat16":         {single, "bfloat16 max"},
		"--dtype float16 --op sum": {single, "float16 sum"},
	} {
		q, f := &question{}, pflag.NewFlagSet("explain", pflag.ContinueOnError)
		q.flags(f)
		if err := f.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		q.askOfWhatIsServed(f, c.serves)
		if got := q.dataType + " " + q.op; got != c.want {
			t.Errorf("%q: asks about %s, want %s", line, got, c.want)
		}
	}
}

// TestCalledAfter: messages call a plugin under test by its file.
func TestCalledAfter(t *testing.T) {
	for path, want := range map[string]string{"bin/my-ring": "my-ring", "./My_Plugin.py": "my-plugin", "/tmp/--.py": "plugin", "a.b.c": "a-b"} {
		if got := calledAfter(path); got != want || pluginv1.CheckName(got) != nil {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestBrokenRuleAtStart: what a plugin says of itself is no matter of the handshake.
func TestBrokenRuleAtStart(t *testing.T) {
	wrong := errors.New(`name "X": use lower-case letters`)
	for want, err := range map[string]error{
		"process/handshake": fmt.Errorf("plugin x: %w", wrong),
		"info/valid":        fmt.Errorf("plugin x: %w", &pluginv1.DescriptionError{Err: wrong}),
	} {
		got := handshakeFailed(err)
		if got.Rule != want || got.Got != err.Error() || got.Want == "" || got.See != "docs/authors/testing.md#"+strings.ReplaceAll(want, "/", "") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// TestOneCauseOnce: what breaks several rules of a backend is printed once, and again for another backend.
func TestOneCauseOnce(t *testing.T) {
	var out strings.Builder
	r := &conformReport{out: &out, format: "text"}
	for _, x := range [][3]string{{"a", "plan/valid", "no plan"}, {"a", "plan/repeatable", "no plan"}, {"a", "results/exact", "3, want 4"}, {"b", "plan/valid", "no plan"}} {
		r.add(conformance.Result{Backend: x[0], Rule: x[1], Got: x[2], Outcome: conformance.Failed})
	}
	var seen []string
	for line := range strings.Lines(out.String()) {
		if text, ok := strings.CutPrefix(line, "        seen      "); ok {
			seen = append(seen, strings.TrimSpace(text))
		}
	}
	if got, want := strings.Join(seen, "; "), "no plan; the same as plan/valid; 3, want 4; no plan"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNothingToTest: a wrong path is told as `weir plugins inspect` tells it.
func TestNothingToTest(t *testing.T) {
	_, err := conformFlags{tls: "auto", deadline: 1, start: 1}.spec("bin/nope")
	if want := "there is no file bin/nope: correct the path or build the plugin"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
