package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/collective"
)

// load reads a configuration in an empty working directory: weir.yaml if yaml is not "", variables and flags.
func load(t *testing.T, yaml string, environ []string, args ...string) (*Loaded, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	src := Source{Environ: environ, Flags: parsed(t, args...), Exe: "/opt/weir/bin/weir"}
	if yaml != "" {
		write(t, "weir.yaml", yaml)
		src.File = "weir.yaml"
	}
	return Load(src)
}

func parsed(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("weir", pflag.ContinueOnError)
	fs.IntP("ranks", "n", 1, "not configuration")
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, yaml string, environ []string, args ...string) *Loaded {
	t.Helper()
	l, err := load(t, yaml, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDefaults(t *testing.T) {
	want := Default("/opt/weir/bin/weir")
	for name, yaml := range map[string]string{
		"no file":             "",
		"empty file":          "\n",
		"only a comment":      "# nothing\n",
		"null document":       "---\n",
		"keys without values": "group:\n  deadline:\nplugins:\ncascade:\n  order:\n  fallback:\n",
		"empty mapping":       "{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := mustLoad(t, yaml, nil)
			if diff := cmp.Diff(want, l.Config); diff != "" {
				t.Error(diff)
			}
			if got := l.Origin("group.deadline"); got != "default" {
				t.Errorf("origin %q", got)
			}
		})
	}
	if want.PluginDir != "/opt/weir/bin/plugins" {
		t.Errorf("plugin folder %q", want.PluginDir)
	}
}

const everything = `group:
  deadline: 5s
  join_deadline: 1m30s
  deterministic: true
cascade:
  order: [shm-flat, shm-two-shot]
  disabled: [slow]
  fallback: {host: shm-flat}
plugin_dir: more
plugins:
  my-ring:
    path: bin/my-ring
    sha256: AB000000000000000000000000000000000000000000000000000000000000cd
    tls: false
    env: {CamelCase: "1"}
    settings:
      tile: 64KiB
      depth: 3
      ratio: 0.5
      when: 2024-01-02
      none: null
      nested: {list: [1, {a: true}]}
  bare:
deadlines: {start: 1s, call: 2s, prepare: 3s, self_test: 4s, worker: 5s}
restart: {first: 5ms, longest: 6s, stable: 7m, most: 8}
telemetry: {traces: otlp, metrics: console, endpoint: "http://localhost:4317", service_name: mine}
log: {level: debug, format: json}
agent: {socket: run/agent.sock}
shared: {max_bytes: 64KiB}
p2p: {verify: off}
`

func TestFile(t *testing.T) {
	l := mustLoad(t, everything, nil)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Group: Group{Deadline: 5 * time.Second, SlowAfter: time.Second, JoinDeadline: 90 * time.Second, Deterministic: true},
		Cascade: Cascade{
			Order: []string{"shm-flat", "shm-two-shot"}, Disabled: []string{"slow"},
			Fallback: map[string]string{"cuda": "nccl", "host": "shm-flat"},
		},
		PluginDir: filepath.Join(dir, "more"),
		Plugins: map[string]Plugin{
			"my-ring": {
				Path: filepath.Join(dir, "bin/my-ring"), SHA256: "ab" + strings.Repeat("0", 60) + "cd",
				Env: map[string]string{"CamelCase": "1"},
				Settings: map[string]any{
					"tile": "64KiB", "depth": 3, "ratio": 0.5, "when": "2024-01-02", "none": nil,
					"nested": map[string]any{"list": []any{1, map[string]any{"a": true}}},
				},
			},
			"bare": {Path: filepath.Join(dir, "more/bare"), TLS: true},
		},
		Deadlines: Deadlines{Start: time.Second, Call: 2 * time.Second, Prepare: 3 * time.Second, SelfTest: 4 * time.Second, Worker: 5 * time.Second},
		Restart:   Restart{First: 5 * time.Millisecond, Longest: 6 * time.Second, Stable: 7 * time.Minute, Most: 8},
		Telemetry: Telemetry{Traces: "otlp", Metrics: "console", Endpoint: "http://localhost:4317", ServiceName: "mine"},
		Log:       Log{Level: "debug", Format: "json"},
		Agent:     Agent{Socket: filepath.Join(dir, "run/agent.sock")},
		Shared:    Shared{MaxBytes: 64 * KiB},
		P2P:       P2P{Verify: "off"},
	}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Error(diff)
	}
	for key, want := range map[string]string{
		"group.join_deadline":                  "weir.yaml:3",
		"cascade.order":                        "weir.yaml:6",
		"cascade.fallback.host":                "weir.yaml:8",
		"cascade.fallback.cuda":                "default",
		"plugins.my-ring.settings.nested.list": "weir.yaml:22",
		"plugins.bare.tls":                     "default",
	} {
		if got := l.Origin(key); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
}

func TestPrecedence(t *testing.T) {
	yaml := "group: {deadline: 1s, join_deadline: 1s, deterministic: true}\ncascade:\n  order: [a, b, c]\nplugins:\n  x: {path: x, tls: false}\n"
	l := mustLoad(t, yaml, []string{
		"WEIR_GROUP__DEADLINE=2s", "WEIR_GROUP__JOIN_DEADLINE=2s", "WEIR_CASCADE__ORDER=b", "WEIR_PLUGINS__X__SHA256=", "HOME=/",
	}, "--deadline=3s", "--plugin", "x=y", "--ranks=8")
	g := l.Config.Group
	if g.Deadline != 3*time.Second || g.JoinDeadline != 2*time.Second || !g.Deterministic {
		t.Errorf("group %+v", g)
	}
	if diff := cmp.Diff([]string{"b"}, l.Config.Cascade.Order); diff != "" {
		t.Errorf("a list must be replaced, not merged: %s", diff)
	}
	if x := l.Config.Plugins["x"]; filepath.Base(x.Path) != "y" || x.TLS {
		t.Errorf("plugins are merged value by value, got %+v", x)
	}
	for key, want := range map[string]string{
		"group.deadline":      "--deadline",
		"group.join_deadline": "WEIR_GROUP__JOIN_DEADLINE",
		"group.deterministic": "weir.yaml:1",
		"cascade.order":       "WEIR_CASCADE__ORDER",
		"plugins.x.path":      "--plugin",
		"plugins.x.tls":       "weir.yaml:5",
		"log.level":           "default",
	} {
		if got := l.Origin(key); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
}

// Relative paths begin at the file's folder when they come from it, at the working directory otherwise.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("conf", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "conf/weir.yaml", "plugin_dir: p\nplugins:\n  a: {path: ../a}\n  b: {path: /abs/b}\n  c: {}\n")
	l, err := Load(Source{
		File: "conf/weir.yaml", Environ: []string{"WEIR_PLUGINS__D__PATH=d", "WEIR_AGENT__SOCKET=s"}, Flags: parsed(t, "--plugin=e=./e"),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"dir": l.Config.PluginDir, "socket": l.Config.Agent.Socket}
	for name, p := range l.Config.Plugins {
		got[name] = p.Path
	}
	want := map[string]string{
		"dir": dir + "/conf/p", "a": dir + "/a", "b": "/abs/b", "c": dir + "/conf/p/c", "d": dir + "/d", "e": dir + "/e", "socket": dir + "/s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPluginDirNone(t *testing.T) {
	if l := mustLoad(t, "plugin_dir: \"\"\n", nil); l.Config.PluginDir != "" {
		t.Errorf("plugin folder %q", l.Config.PluginDir)
	}
	if l := mustLoad(t, "", []string{"WEIR_PLUGIN_DIR="}); l.Config.PluginDir != "" {
		t.Errorf("plugin folder %q", l.Config.PluginDir)
	}
	_, err := load(t, "plugin_dir: \"\"\nplugins:\n  x: {tls: true}\n", nil)
	wantError(t, err, "weir.yaml:3: plugins.x has no path and there is no plugin_dir; set plugins.x.path")
	_, err = load(t, "", []string{"WEIR_PLUGIN_DIR=", "WEIR_PLUGINS__X__TLS=false"})
	wantError(t, err, "WEIR_PLUGINS__X__TLS: plugins.x has no path and there is no plugin_dir; set plugins.x.path")
	mustLoad(t, "plugin_dir: \"\"\nplugins:\n  x: {disabled: true}\n", nil)
}

func TestFallbackFor(t *testing.T) {
	for yaml, want := range map[string]string{"": "nccl", "cascade: {fallback: {cuda: \"\"}}\n": "", "cascade: {fallback: {cuda: rccl}}\n": "rccl"} {
		c := mustLoad(t, yaml, nil).Config.Cascade
		if got := c.FallbackFor(collective.CUDA); got != want {
			t.Errorf("%q: fallback %q, want %q", yaml, got, want)
		}
		if got := c.FallbackFor(collective.Host); got != "" {
			t.Errorf("%q: fallback of host memory %q", yaml, got)
		}
	}
}

// wantError checks the whole text of an error, which must be one line.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if err.Error() != want || strings.Contains(err.Error(), "\n") {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}
