package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	l := mustLoad(t, "", []string{
		"WEIR_GROUP__JOIN_DEADLINE=2m",
		"WEIR_GROUP__DETERMINISTIC=true",
		"WEIR_CASCADE__ORDER=a, b",
		"WEIR_CASCADE__DISABLED=",
		"WEIR_CASCADE__FALLBACK__CUDA=rccl",
		"WEIR_SHARED__MAX_BYTES=1MiB",
		"WEIR_PLUGINS__MY_RING__PATH=/p",
		"WEIR_PLUGINS__MY_RING__ENV__Mixed__CASE=v=w",
		"WEIR_PLUGINS__MY_RING__SETTINGS__TILE=64KiB",
		"WEIR_PLUGINS__MY_RING__SETTINGS__DEPTH=4",
		"WEIR_PLUGINS__MY_RING__SETTINGS__ON=true",
		"WEIR_PLUGINS__MY_RING__SETTINGS__EMPTY=",
		"WEIR_PLUGINS__MY_RING__SETTINGS__LIST=[1, two]",
		"WEIR_PLUGINS__MY_RING__SETTINGS__MORE__DEEP=1.5",
		"WEIR_PLUGINS__MY_RING__SETTINGS__MAP={a: 1}",
		"WEIR_AGENT_SOCKET=/x", "WEIR_RANK=0", "WEIR_WORLD_SIZE=8", "WEIR_DEVICE=0", "WEIR_REQUIRE=gpu", "WEIR_TEST_PATIENCE=3",
		"weir_group__dealine=1s", "WEIRD=1", "NOEQUALS",
	})
	want := Default("/opt/weir/bin/weir")
	want.Group.JoinDeadline = 2 * time.Minute
	want.Group.Deterministic = true
	want.Cascade = Cascade{Order: []string{"a", "b"}, Disabled: []string{}, Fallback: map[string]string{"cuda": "rccl"}}
	want.Shared.MaxBytes = MiB
	want.Plugins = map[string]Plugin{"my-ring": {
		Path: "/p", TLS: true, Env: map[string]string{"Mixed__CASE": "v=w"},
		Settings: map[string]any{
			"tile": "64KiB", "depth": 4, "on": true, "empty": "", "list": []any{1, "two"},
			"more": map[string]any{"deep": 1.5}, "map": map[string]any{"a": 1},
		},
	}}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Error(diff)
	}
	for key, want := range map[string]string{
		"cascade.fallback.cuda":              "WEIR_CASCADE__FALLBACK__CUDA",
		"plugins.my-ring.env.Mixed__CASE":    "WEIR_PLUGINS__MY_RING__ENV__Mixed__CASE",
		"plugins.my-ring.settings.map.a":     "WEIR_PLUGINS__MY_RING__SETTINGS__MAP",
		"plugins.my-ring.settings.more.deep": "WEIR_PLUGINS__MY_RING__SETTINGS__MORE__DEEP",
	} {
		if got := l.Origin(key); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
}

func TestEnvironmentErrors(t *testing.T) {
	for name, c := range map[string]struct {
		variable string
		want     string
	}{
		"unknown":              {"WEIR_GROUP__DEALINE=5s", "WEIR_GROUP__DEALINE: unknown key group.dealine, did you mean WEIR_GROUP__DEADLINE?"},
		"one underscore":       {"WEIR_GROUP_DEADLINE=5s", "WEIR_GROUP_DEADLINE: unknown key group_deadline, did you mean WEIR_GROUP__DEADLINE?"},
		"nearly reserved":      {"WEIR_RANKS=5", "WEIR_RANKS: unknown key ranks; the top-level keys are group, cascade, plugin_dir, plugins, deadlines, restart, telemetry, log, agent, shared, p2p"},
		"prefix only":          {"WEIR_=5", "WEIR_: unknown key ; the top-level keys are group, cascade, plugin_dir, plugins, deadlines, restart, telemetry, log, agent, shared, p2p"},
		"plugin key":           {"WEIR_PLUGINS__MY_RING__PAHT=5", "WEIR_PLUGINS__MY_RING__PAHT: unknown key plugins.my-ring.paht, did you mean WEIR_PLUGINS__MY_RING__PATH?"},
		"not capitals":         {"WEIR_group__DEADLINE=5s", "WEIR_group__DEADLINE: variables are written in capitals: WEIR_GROUP__DEADLINE"},
		"below a value":        {"WEIR_GROUP__DEADLINE__X=5s", "WEIR_GROUP__DEADLINE__X: unknown key group.deadline.x; group.deadline has no keys below it"},
		"section":              {"WEIR_GROUP=5s", "WEIR_GROUP: group has keys of its own; set them one by one, such as WEIR_GROUP__DEADLINE"},
		"plugin":               {"WEIR_PLUGINS__X=/x", "WEIR_PLUGINS__X: plugins.x has keys of its own; set them one by one, such as WEIR_PLUGINS__X__PATH"},
		"settings":             {"WEIR_PLUGINS__X__SETTINGS=a", "WEIR_PLUGINS__X__SETTINGS: plugins.x.settings has keys of its own; set them one by one, such as WEIR_PLUGINS__X__SETTINGS__SETTING"},
		"plugin name":          {"WEIR_PLUGINS___X__PATH=/x", `WEIR_PLUGINS___X__PATH: plugin name "-x" is not allowed; use lower-case letters, digits and "-", such as "x"`},
		"empty level":          {"WEIR_PLUGINS__X__SETTINGS__A____B=1", "WEIR_PLUGINS__X__SETTINGS__A____B: a key is empty"},
		"memory kind":          {"WEIR_CASCADE__FALLBACK__GPU=nccl", `WEIR_CASCADE__FALLBACK__GPU: unknown memory kind "gpu"; use one of host, cuda`},
		"bare duration":        {"WEIR_GROUP__DEADLINE=5", `WEIR_GROUP__DEADLINE: group.deadline: duration 5 has no unit; write "5s" for seconds or "5ms" for milliseconds`},
		"empty duration":       {"WEIR_GROUP__DEADLINE=", `WEIR_GROUP__DEADLINE: group.deadline: "" is not a duration such as "500ms", "30s" or "1m30s"`},
		"bare size":            {"WEIR_SHARED__MAX_BYTES=64", `WEIR_SHARED__MAX_BYTES: shared.max_bytes: size 64 has no unit; write "64B", or use KiB, MiB or GiB`},
		"not a bool":           {"WEIR_GROUP__DETERMINISTIC=1", `WEIR_GROUP__DETERMINISTIC: group.deterministic: must be true or false, not "1"`},
		"empty element":        {"WEIR_CASCADE__ORDER=a,,b", `WEIR_CASCADE__ORDER: cascade.order names the backend ""; names consist of lower-case letters, digits and "-"`},
		"bad YAML":             {"WEIR_PLUGINS__X__SETTINGS__A=[1", `WEIR_PLUGINS__X__SETTINGS__A: plugins.x.settings.a: "[1" is not a YAML value; put text with special characters in quotes`},
		"bad setting":          {"WEIR_PLUGINS__X__SETTINGS__A=.inf", "WEIR_PLUGINS__X__SETTINGS__A: plugins.x.settings.a: .inf is not a number that a setting can hold"},
		"rounded setting":      {"WEIR_PLUGINS__X__SETTINGS__A=-9_007_199_254_740_993", `WEIR_PLUGINS__X__SETTINGS__A: plugins.x.settings.a: -9007199254740993 is a whole number that a setting cannot hold, the nearest is -9007199254740992: write it as text ("-9007199254740993")`},
		"validated afterwards": {"WEIR_GROUP__DEADLINE=-5s", "WEIR_GROUP__DEADLINE: group.deadline is -5s; it must be greater than zero"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", []string{c.variable})
			wantError(t, err, c.want)
		})
	}
}

func TestEnvironmentContradictions(t *testing.T) {
	_, err := load(t, "", []string{"WEIR_PLUGINS__A_B__PATH=/x", "WEIR_PLUGINS__A-B__PATH=/y"})
	wantError(t, err, "WEIR_PLUGINS__A-B__PATH: sets plugins.a-b.path, which WEIR_PLUGINS__A_B__PATH sets too")

	_, err = load(t, "", []string{"WEIR_PLUGINS__X__SETTINGS__A__B=1", "WEIR_PLUGINS__X__SETTINGS__A=1"})
	wantError(t, err, "WEIR_PLUGINS__X__SETTINGS__A__B sets a key below plugins.x.settings.a, which WEIR_PLUGINS__X__SETTINGS__A sets to a value")
}

// VariableFor is the inverse of how variables are read.
func TestVariables(t *testing.T) {
	for _, key := range []string{"group.join_deadline", "plugins.my-ring.env.Mixed__CASE", "plugins.x.settings.a.b", "cascade.fallback.cuda"} {
		path, _, err := resolveVariable(VariableFor(key))
		if err != nil {
			t.Error(err)
		}
		if got := joinKey(path); got != key {
			t.Errorf("%s means %s, want %s", VariableFor(key), got, key)
		}
	}
}
