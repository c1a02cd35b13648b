package languages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// misbehaviours are what an author may write into a scaffold's reduce that goes well while ranks try the worker: at which rule
// it is found, and with which words.
var misbehaviours = []struct {
	name, rule, python, c string
	want                  []string
}{
	{
		"garbage at call 1", "results/exact",
		"if tile.call == 1: tile.out[:] = 7; return",
		"if (tile->call == 1) { memset(tile->out, 7, tile->bytes); return 0; }",
		[]string{"call number 1: element 0 is"},
	},
	{
		"garbage at call 5", "worker/calls",
		"if tile.call == 5: tile.out[:] = 7; return",
		"if (tile->call == 5) { memset(tile->out, 7, tile->bytes); return 0; }",
		[]string{"call number 5: element 0 is"},
	},
	{
		"garbage from call 1000 on", "worker/calls",
		"if tile.call >= 1000: tile.out[:] = 7; return",
		"if (tile->call >= 1000) { memset(tile->out, 7, tile->bytes); return 0; }",
		[]string{"call number 1000: element 0 is"},
	},
	{
		"garbage after a longer call", "worker/calls",
		"self.last, last = tile.call_bytes, getattr(self, 'last', 0)\n        if tile.call_bytes < last: tile.out[:] = 7; return",
		"static uint64_t last; uint64_t before = last; last = tile->bytes; if (last < before) { memset(tile->out, 7, tile->bytes); return 0; }",
		[]string{"call number 3: element 0 is"},
	},
	{
		"an error at call 5", "worker/calls",
		"if tile.call == 5: raise KeyError('spam')",
		"if (tile->call == 5) return 3;",
		[]string{"call number 5: the worker is gone", "the plugin's log says: "},
	},
	{
		"an exit at call 5", "worker/calls",
		"import os\n        if tile.call == 5: os._exit(3)",
		"if (tile->call == 5) _exit(3);",
		[]string{"call number 5: the worker is gone"},
	},
	{
		"a hang at call 5", "worker/calls",
		"import time\n        if tile.call == 5: time.sleep(3600)",
		"if (tile->call == 5) sleep(3600);",
		[]string{"call number 5: it took longer than", "over a tile that all ranks had handed over"},
	},
}

// TestMisbehaviour: workers that begin as scaffolds and are edited to go wrong at a later call do not pass.
func TestMisbehaviour(t *testing.T) {
	require.Long(t)
	for _, lang := range []struct {
		name, file, head string
		test             []string
	}{
		{"python", "backend.py", "    def reduce(self, tile):\n", []string{"--tls", "off"}},
		{"c", "adder.c", "static int reduce(const struct weir_tile *tile) {\n", nil},
	} {
		t.Run(lang.name, func(t *testing.T) {
			env := scaffoldEnv(t, lang.name, false)
			dir := filepath.Join(t.TempDir(), "new")
			mustRun(t, "", env, "weir", "plugins", "new", dir, "--name", "bad", "--kind", "worker", "--lang", lang.name)
			file := filepath.Join(dir, lang.file)
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range misbehaviours {
				t.Run(m.name, func(t *testing.T) {
					wrong, head := "        "+m.python+"\n", ""
					if lang.name == "c" {
						wrong, head = "  "+m.c+"\n", "#include <stdint.h>\n#include <string.h>\n#include <unistd.h>\n"
					}
					edited := head + strings.Replace(string(source), lang.head, lang.head+wrong, 1)
					if len(edited) != len(source)+len(head)+len(wrong) {
						t.Fatalf("%s has no %q", lang.file, lang.head)
					}
					if err := os.WriteFile(file, []byte(edited), 0o700); err != nil {
						t.Fatal(err)
					}
					plugin := file
					if lang.name == "c" {
						mustRun(t, dir, env, "make")
						plugin = filepath.Join(dir, "build", "bad")
					}
					args := append([]string{plugin, "--run", "^" + m.rule + "$", "--deadline", await.For(time.Second).String()}, lang.test...)
					got, code := harness.Conform(t, env, args...)
					if code != 1 || len(got.Results) != 1 || got.Results[0].Outcome != "fail" {
						t.Fatalf("exit code %d, %+v", code, got.Results)
					}
					for _, want := range m.want {
						if !strings.Contains(got.Results[0].Seen, want) {
							t.Errorf("got %q, want %q", got.Results[0].Seen, want)
						}
					}
				})
			}
		})
	}
}
