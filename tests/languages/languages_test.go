package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/require"
)

// TestOtherLanguagesGoWrong: what a worker in another language does wrong in the middle of calls, its ranks survive, and the log
// says what it was.
func TestOtherLanguagesGoWrong(t *testing.T) {
	require.Long(t)
	deadline := await.For(500 * time.Millisecond).Round(time.Millisecond).String()
	for name, c := range map[string]struct {
		lang, file string
		old, new   string
		want       []string
	}{
		"an exception": {
			"python", "backend.py", "        with numpy.errstate", "        if tile.call == 100:\n            raise RuntimeError('out of luck')\n        with numpy.errstate",
			[]string{"RuntimeError: out of luck", "the worker ended its service"},
		},
		"an exit": {
			"python", "backend.py", "        with numpy.errstate", "        if tile.call == 100:\n            import os; os._exit(3)\n        with numpy.errstate",
			[]string{"exit status 3"},
		},
		"a stop": {
			"python", "backend.py", "        with numpy.errstate", "        if tile.call == 100:\n            import time; time.sleep(60)\n        with numpy.errstate",
			[]string{"TIMEOUT", "within " + deadline + " of all ranks having handed it over"},
		},
		"an error": {
			"c", "adder.c", "  switch (tile->type) {\n", "  if (tile->call == 100) return 7;\n  switch (tile->type) {\n",
			[]string{"all-reduce 100: reduce returned 7", "the worker ended its service"},
		},
		"a crash": {
			"c", "adder.c", "  switch (tile->type) {\n", "  if (tile->call == 100) *(int *)tile->in[0] = 1; /* which can only be read */\n  switch (tile->type) {\n",
			[]string{"signal: segmentation fault"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := append(scaffoldEnv(t, c.lang, false), "WEIR_DEADLINES__WORKER="+deadline, "WEIR_RESTART__FIRST=1h", "WEIR_RESTART__LONGEST=1h")
			dir := filepath.Join(t.TempDir(), "new")
			mustRun(t, "", env, "weir", "plugins", "new", dir, "--name", "bad", "--kind", "worker", "--lang", c.lang)
			source := filepath.Join(dir, c.file)
			text, err := os.ReadFile(source)
			if err != nil || !strings.Contains(string(text), c.old) {
				t.Fatalf("%v, or %s lacks %q", err, source, c.old)
			}
			if err := os.WriteFile(source, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o755); err != nil {
				t.Fatal(err)
			}
			if c.lang == "c" {
				mustRun(t, dir, env, "make")
			}
			out := mustRun(t, "", env, "weir", "run", "-q", "-c", filepath.Join(dir, "weir.yaml"), "-n", "2", "--", "checked", "-calls", "300", "-op", "sum")
			if n := len(harness.AllRight.FindAllString(out, -1)); n != 2 {
				t.Errorf("%d ranks are right:\n%s", n, out)
			}
			for _, want := range append(c.want, "a call went on with another backend") {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestSuiteTellsOfAnErrorInC: so does what a worker in C says, with the quotes and the line's end in it, and what its own part
// of the SDK says.
func TestSuiteTellsOfAnErrorInC(t *testing.T) {
	require.Long(t)
	env := scaffoldEnv(t, "c", false)
	dir := filepath.Join(t.TempDir(), "new")
	mustRun(t, "", env, "weir", "plugins", "new", dir, "--name", "bad", "--kind", "worker", "--lang", "c")
	source := filepath.Join(dir, "adder.c")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const work = "  switch (tile->type) {\n"
	for said, want := range map[string]string{
		"": "the service of group backendtest-1 has ended: all-reduce 0: reduce returned 7",
		`  weir_log("error", "no \"%s\"\nC:\\%d", "luck", 5);` + "\n": `no "luck": C:\5`,
	} {
		if err := os.WriteFile(source, []byte(strings.Replace(string(text), work, said+"  return 7;\n"+work, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRun(t, dir, env, "make")
		c, code := harness.Conform(t, env, filepath.Join(dir, "build", "bad"), "--run", "results/same-bits")
		if code != 1 || len(c.Results) != 1 || !strings.Contains(c.Results[0].Seen, "the plugin's log says: "+want) {
			t.Errorf("exit code %d, %+v, want %q", code, c.Results, want)
		}
	}

	// The bridge that cannot do its work says why too.
	if err := os.WriteFile(source, []byte(strings.Replace(string(text), `\"scope\"`, `\"scoop\"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, env, "make")
	out, err := exec.Command("sh", "-c", "PLUGIN_PROTOCOL_VERSIONS=1 "+filepath.Join(dir, "build", "bad")+" 2>&1").Output()
	if want := `"@level":"error","@message":"the worker's backend is not right:`; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the bridge says %q (%v), want %q", out, err, want)
	}
}

// TestSuiteTellsOfAnException: the exception that ended a worker's service stands in the failure, since its log is not shown.
func TestSuiteTellsOfAnException(t *testing.T) {
	require.Long(t)
	env := scaffoldEnv(t, "python", false)
	dir := filepath.Join(t.TempDir(), "new")
	mustRun(t, "", env, "weir", "plugins", "new", dir, "--name", "bad", "--kind", "worker", "--lang", "python")
	source := filepath.Join(dir, "backend.py")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const work = "        with numpy.errstate"
	if err := os.WriteFile(source, []byte(strings.Replace(string(text), work, "        raise RuntimeError('out of luck')\n"+work, 1)), 0o755); err != nil {
		t.Fatal(err)
	}
	c, code := harness.Conform(t, env, source, "--tls", "off", "--run", "results/same-bits")
	if code != 1 || len(c.Results) != 1 || !strings.Contains(c.Results[0].Seen, "has ended: RuntimeError: out of luck") {
		t.Errorf("exit code %d, %+v", code, c.Results)
	}
}
