package config

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileErrors(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"unknown key":            {"group:\n  dealine: 5s\n", "weir.yaml:2: unknown key group.dealine, did you mean group.deadline?"},
		"unknown section":        {"grup:\n  deadline: 5s\n", "weir.yaml:1: unknown key grup, did you mean group?"},
		"capitals":               {"Group:\n  deadline: 5s\n", "weir.yaml:1: unknown key Group, did you mean group?"},
		"capitals inside":        {"group:\n  Deadline: 5s\n", "weir.yaml:2: unknown key group.Deadline, did you mean group.deadline?"},
		"hyphen":                 {"group:\n  join-deadline: 5s\n", "weir.yaml:2: unknown key group.join-deadline, did you mean group.join_deadline?"},
		"wrong level":            {"max_bytes: 1GiB\n", "weir.yaml:1: unknown key max_bytes, did you mean shared.max_bytes?"},
		"dotted":                 {"group.deadline: 5s\n", "weir.yaml:1: unknown key group.deadline, did you mean group.deadline?"},
		"far from all keys":      {"group:\n  frobnicate: 1\n", "weir.yaml:2: unknown key group.frobnicate; group has deadline, slow_after, join_deadline, deterministic, share_devices, unabortable_kernels"},
		"far from all, top":      {"zzzzzzzz: 1\n", "weir.yaml:1: unknown key zzzzzzzz; the top-level keys are group, cascade, plugin_dir, plugins, deadlines, restart, telemetry, log, agent, shared, p2p"},
		"unknown plugin key":     {"plugins:\n  shm:\n    paht: x\n", "weir.yaml:3: unknown key plugins.shm.paht, did you mean plugins.shm.path?"},
		"dot in plugin name":     {"plugins:\n  my.ring: {path: x}\n", `weir.yaml:2: plugins: plugin name "my.ring" contains a dot; use lower-case letters, digits and "-", such as "my-ring"`},
		"underscore in name":     {"plugins:\n  My_Ring: {path: x}\n", `weir.yaml:2: plugins: plugin name "My_Ring" is not allowed; use lower-case letters, digits and "-", such as "my-ring"`},
		"dot in a setting":       {"plugins:\n  x:\n    settings: {a.b: 1}\n", `weir.yaml:3: plugins.x.settings: key "a.b" contains a dot, which separates levels; nest the keys instead`},
		"unknown memory":         {"cascade:\n  fallback:\n    gpu: nccl\n", `weir.yaml:3: cascade.fallback: unknown memory kind "gpu"; use one of host, cuda`},
		"duplicate key":          {"group:\n  deadline: 5s\n  deadline: 6s\n", "weir.yaml:3: key group.deadline is already set on line 2"},
		"duplicate section":      {"log: {level: info}\ngroup: {}\nlog: {}\n", "weir.yaml:3: key log is already set on line 1"},
		"duplicate in settings":  {"plugins: {x: {settings: {a: 1, a: 2}}}\n", "weir.yaml:1: key plugins.x.settings.a is already set on line 1"},
		"bare duration":          {"group:\n  deadline: 5\n", `weir.yaml:2: group.deadline: duration 5 has no unit; write "5s" for seconds or "5ms" for milliseconds`},
		"bare zero":              {"group: {deadline: 0}\n", `weir.yaml:1: group.deadline: duration 0 has no unit; write "0s" for seconds or "0ms" for milliseconds`},
		"quoted bare duration":   {"group: {deadline: \"1.5\"}\n", `weir.yaml:1: group.deadline: duration 1.5 has no unit; write "1.5s" for seconds or "1.5ms" for milliseconds`},
		"not a duration":         {"group: {deadline: soon}\n", `weir.yaml:1: group.deadline: "soon" is not a duration such as "500ms", "30s" or "1m30s"`},
		"duration overflow":      {"group: {deadline: 9999999999h}\n", `weir.yaml:1: group.deadline: "9999999999h" is not a duration such as "500ms", "30s" or "1m30s"`},
		"bool for a duration":    {"group: {deadline: true}\n", `weir.yaml:1: group.deadline: must be a duration such as "500ms", not true or false`},
		"bare size":              {"shared:\n  max_bytes: 65536\n", `weir.yaml:2: shared.max_bytes: size 65536 has no unit; write "65536B", or use KiB, MiB or GiB`},
		"decimal unit":           {"shared: {max_bytes: 64KB}\n", `weir.yaml:1: shared.max_bytes: size "64KB": unknown unit "KB"; units are powers of 1024: did you mean KiB?`},
		"fraction":               {"shared: {max_bytes: 8.5}\n", `weir.yaml:1: shared.max_bytes: size "8.5" is not a whole number; use a smaller unit, such as 1536KiB for one and a half MiB`},
		"list for a size":        {"shared: {max_bytes: [1]}\n", "weir.yaml:1: shared.max_bytes must not be a list"},
		"number for a bool":      {"group: {deterministic: 1}\n", "weir.yaml:1: group.deterministic: must be true or false, not 1"},
		"text for a bool":        {"group: {deterministic: \"true\"}\n", ""},
		"yes for a bool":         {"group: {deterministic: yes}\n", `weir.yaml:1: group.deterministic: must be true or false, not "yes"`},
		"number for text":        {"telemetry: {service_name: 5}\n", `weir.yaml:1: telemetry.service_name: must be text, not a number; quote it: "5"`},
		"number in env":          {"plugins: {x: {env: {A: 1}}}\n", `weir.yaml:1: plugins.x.env.A: must be text, not a number; quote it: "1"`},
		"text for a list":        {"cascade: {order: nccl}\n", "weir.yaml:1: cascade.order: must be a list, not text; write [nccl]"},
		"number in a list":       {"cascade:\n  order:\n  - a\n  - 5\n", "weir.yaml:4: cascade.order: an element must be text, not a number"},
		"scalar for a section":   {"group: 5\n", "weir.yaml:1: group must be a mapping of keys, not a number"},
		"list for plugins":       {"plugins:\n- shm\n", "weir.yaml:2: plugins must be a mapping of keys, not a list"},
		"root is a list":         {"- a\n", `weir.yaml:1: the file must hold a mapping of keys, such as "group:", not a list`},
		"root is text":           {"hello\n", `weir.yaml:1: the file must hold a mapping of keys, such as "group:", not text`},
		"numeric key":            {"1: x\n", `weir.yaml:1: a key must be text: quote it, or write keys as "name: value" without anchors and merges`},
		"merge key":              {"group: &g {deadline: 1s}\nlog:\n  <<: *g\n", `weir.yaml:3: a key must be text: quote it, or write keys as "name: value" without anchors and merges`},
		"alias":                  {"log: {level: &l info, format: *l}\n", "weir.yaml:1: log.format: YAML aliases are not supported; write the value out"},
		"alias to itself":        {"plugins: {x: {settings: {a: &a [*a]}}}\n", "weir.yaml:1: plugins.x.settings.a: YAML aliases are not supported; write the value out"},
		"not a number setting":   {"plugins: {x: {settings: {a: .nan}}}\n", "weir.yaml:1: plugins.x.settings.a: .nan is not a number that a setting can hold"},
		"rounded setting":        {"plugins:\n  x:\n    settings:\n      a:\n        b: [1, 9007199254740993]\n", `weir.yaml:5: plugins.x.settings.a.b: 9007199254740993 is a whole number that a setting cannot hold, the nearest is 9007199254740992: write it as text ("9007199254740993")`},
		"setting of 65 bits":     {"plugins: {x: {settings: {a: 18446744073709551617}}}\n", `weir.yaml:1: plugins.x.settings.a: 18446744073709551617 is a whole number that a setting cannot hold, the nearest is 18446744073709551616: write it as text ("18446744073709551617")`},
		"rounded hexadecimal":    {"plugins: {x: {settings: {a: 0xffffffffffffffff}}}\n", `weir.yaml:1: plugins.x.settings.a: 18446744073709551615 is a whole number that a setting cannot hold, the nearest is 18446744073709551616: write it as text ("18446744073709551615")`},
		"binary setting":         {"plugins: {x: {settings: {a: !!binary aGk=}}}\n", "weir.yaml:1: plugins.x.settings.a: must be a mapping, list, text, number, true or false, not a value tagged !!binary"},
		"NUL":                    {"plugins: {x: {path: \"a\\0b\"}}\n", `weir.yaml:1: plugins.x.path: "a\x00b" contains a NUL character`},
		"second document":        {"log: {}\n---\nlog: {}\n", "weir.yaml:2: a second YAML document begins; a configuration is one"},
		"syntax":                 {"group:\n  deadline: 5s\n deterministic: true\n", "weir.yaml:2: not valid YAML: did not find expected key"},
		"tab":                    {"group:\n\tdeadline: 5s\n", "weir.yaml:2: not valid YAML: found character that cannot start any token"},
		"binary junk":            {"\x7fELF\x02\x01\x01\x00\x00\x00", "weir.yaml: not valid YAML: control characters are not allowed"},
		"not UTF-8":              {"log: {level: \"\xff\xfe\"}\n", "weir.yaml: not valid YAML: invalid leading UTF-8 octet"},
		"too large":              {"# " + strings.Repeat("x", maxFile) + "\n", "configuration file weir.yaml: larger than 1MiB; is it a configuration?"},
		"unknown tag on a value": {"log: {level: !mine info}\n", `weir.yaml:1: log.level: must be text, not a value tagged !mine; quote it: "info"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.yaml, nil)
			if c.want == "" {
				c.want = `weir.yaml:1: group.deterministic: must be true or false, not "true"`
			}
			wantError(t, err, c.want)
		})
	}
}

func TestFileMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(Source{File: "nowhere.yaml"})
	wantError(t, err, "configuration file nowhere.yaml: no such file or directory")

	_, err = Load(Source{Flags: parsed(t, "-c", "nowhere.yaml")})
	wantError(t, err, "configuration file nowhere.yaml: no such file or directory")

	_, err = Load(Source{Flags: parsed(t, "-c", "")})
	wantError(t, err, "--config: the name of the file is empty")

	_, err = Load(Source{File: "."})
	wantError(t, err, "configuration file .: this is a directory; name a file")

	write(t, "plain", "")
	_, err = Load(Source{File: "plain/weir.yaml"})
	wantError(t, err, "configuration file plain/weir.yaml: not a directory")

	_, err = Load(Source{File: "/proc/self/mem"}) // opens, but its first byte cannot be read
	wantError(t, err, "configuration file /proc/self/mem: input/output error")
}

// FuzzFile: whatever a file holds, it is read or refused in one line.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		everything, "", "\x00", "- 1", "a: &a [*a]", "? {a: 1}\n: 2", "\"a\\nb\": 1", "log: {level: !!int \"a\\nb\"}", "cascade: {order: \"a\\nb\"}",
		"%YAML 1.2\n", "plugins: {x: {settings: {a: [[], {}, !!int x, ~]}}}", "--- |\n text\n...\n",
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "weir.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, path, string(data))
		l, err := Load(Source{File: path})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.Contains(err.Error(), path) {
				t.Errorf("the error must be one line and name the file: %q", err)
			}
			return
		}
		if err := l.PrintJSON(io.Discard); err != nil {
			t.Error(err)
		}
	})
}

// A file beside the program is not read unless it is named.
func TestNoFileIsLookedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "weir.yaml", "log: {level: debug}\n")
	l, err := Load(Source{Flags: parsed(t)})
	if err != nil || l.Config.Log.Level != "info" {
		t.Errorf("level %q, error %v", l.Config.Log.Level, err)
	}
}
