package plugin_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// The test binary is also the plugin. How it gets on with an engine is tested where the engine's side is.
const nameEnv = "WEIR_TEST_PLUGIN_NAME"

func TestMain(m *testing.M) {
	name, isPlugin := os.LookupEnv(nameEnv)
	if !isPlugin {
		os.Exit(m.Run())
	}
	os.Exit(plugin.Serve(plugin.Plugin{Name: name, Version: "1.0.0", Backends: []backend.Backend{flat{}}}))
}

func TestServeRefuses(t *testing.T) {
	cookie := pluginv1.MagicCookieKey + "=" + pluginv1.MagicCookieValue
	for name, c := range map[string]struct {
		env  []string
		code int
		want string
	}{
		"by hand":    {[]string{nameEnv + "=example"}, 2, "example 1.0.0 is a plugin of Weir and offers the all-reduce backends example-flat."},
		"a bad name": {[]string{nameEnv + "=Bad", cookie}, 1, `plugin name \"Bad\": use lower-case`},
		"no socket":  {[]string{nameEnv + "=example", cookie, "PLUGIN_UNIX_SOCKET_DIR=/nonexistent"}, 1, "could not start to listen"},
		"no name":    {[]string{nameEnv + "=", cookie}, 1, "without a name"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), c.env...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("%v, want exit code %d", err, c.code)
			}
			if !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
				t.Errorf("stderr %q, want %q; stdout %q", stderr.String(), c.want, stdout.String())
			}
		})
	}
}

func TestSettings(t *testing.T) {
	type config struct {
		Tile  int                 `json:"tile"`
		Names []string            `json:"names"`
		Type  collective.DataType `json:"type"`
		Plain bool
		Inner struct {
			A float64 `json:"a"`
		} `json:"inner"`
		Hidden int      `json:"-"`
		Large  []uint64 `json:"large"`
	}
	start := config{Tile: 7, Plain: true}
	for name, c := range map[string]struct {
		values map[string]any
		want   config
		err    string
	}{
		"none":               {nil, start, ""},
		"all":                {map[string]any{"tile": 8.0, "names": []any{"a"}, "type": "bfloat16", "Plain": false}, config{Tile: 8, Names: []string{"a"}, Type: collective.BFloat16}, ""},
		"unknown":            {map[string]any{"tiel": 1, "x": 2, "tile": 1}, start, `unknown setting "tiel", "x"; known are: tile, names, type, Plain, inner, large`},
		"hidden":             {map[string]any{"Hidden": 1}, start, `unknown setting "Hidden"`},
		"wrong type":         {map[string]any{"tile": "8"}, start, "setting tile: string where int is wanted"},
		"not whole":          {map[string]any{"tile": 1.5}, start, "setting tile: number 1.5 where int is wanted"},
		"all their digits":   {map[string]any{"large": []any{math.Exp2(60), math.Exp2(63), 9007199254740992.0}}, config{Tile: 7, Plain: true, Large: []uint64{1 << 60, 1 << 63, 1 << 53}}, ""},
		"a digit too many":   {map[string]any{"large": []any{math.Exp2(64)}}, config{Tile: 7, Plain: true, Large: []uint64{0}}, "setting large: number 18446744073709551616 where uint64 is wanted"},
		"unknown inside":     {map[string]any{"inner": map[string]any{"b": 1}}, start, `setting inner: unknown field "b"`},
		"unknown enumerator": {map[string]any{"type": "complex"}, start, `setting type: unknown data type "complex"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := start
			err := plugin.NewSettings(c.values).Decode(&got)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, dst := range []any{nil, 1, config{}, new(int)} {
		if err := plugin.NewSettings(nil).Decode(dst); err == nil {
			t.Errorf("decoded into %T", dst)
		}
	}
}

func TestExampleIsPossible(t *testing.T) {
	for n := 1; n <= 8; n++ {
		p, err := flat{}.Plan(t.Context(), backend.Request{Group: collective.HostGroup("g", n)}, backend.AllBytes())
		if err == nil {
			err = p.Validate(n)
		}
		if err != nil {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
}
