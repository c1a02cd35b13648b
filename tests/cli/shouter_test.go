package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-project/weir/tests/harness"
)

// shouters are the variables by which a number of plugins shout, in front of all others.
func shouters(how string, raw bool, names ...string) (env []string) {
	for _, name := range names {
		p := "WEIR_PLUGINS__" + strings.ToUpper(name) + "__"
		env = append(env, p+"PATH="+filepath.Join(harness.Bin, "programs", "shouter"), p+"ENV__NAME="+name, p+"ENV__SHOUT="+how)
		if raw {
			env = append(env, p+"ENV__RAW=1", p+"TLS=false")
		}
	}
	return env
}

// TestPluginsThatSayTooMuch: three plugins that decline with 60 MiB each, or 100 000 reasons, are three declines, and the next serves.
func TestPluginsThatSayTooMuch(t *testing.T) {
	for name, c := range map[string]struct {
		how  string
		raw  bool
		want string
	}{
		"long":             {"long", false, `decline +OTHER \(A{900}A*…\)`},
		"long, no SDK":     {"long", true, `decline +OTHER \(accept: the answer has 629\d+ bytes, an engine takes 4194304 \(4 MiB\) at most\)`},
		"many":             {"many", false, `OTHER \(and 99984 more reasons\)`},
		"many, no SDK":     {"many", true, `OTHER \(and 99984 more reasons\)`},
		"an error":         {"an error", false, `decline +OTHER \(accept: .*A{900}A*…\)`},
		"orders":           {"orders", false, `decline +ARCH: .*u001b]0;PWNED`},
		"orders, no SDK":   {"orders", true, `decline +ARCH: .*u001b]0;PWNED`},
		"last words":       {"last words", false, `it last said: .u001b]0;PWNED`},
		"what is ordinary": {"", true, `decline +OTHER \(no\)`},
	} {
		t.Run(name, func(t *testing.T) {
			env := append(shouters(c.how, c.raw, "ann", "bob", "eve"), "WEIR_DEADLINES__CALL=60s", "WEIR_DEADLINES__START=60s", "WEIR_GROUP__DEADLINE=60s")
			out, err := harness.Weir(t, harness.RunFolder(t), env, "run", "-n", "2", "--", "checked", "-calls", "20", "-op", "sum").CombinedOutput()
			text := string(out)
			if err != nil || !strings.Contains(text, "rank 1: 20 calls, all right") {
				t.Errorf("%v\n%.3000s", err, text)
			}
			for _, plugin := range []string{"ann", "bob", "eve"} {
				if c.how != "last words" && !regexp.MustCompile(`(?m)^ +`+plugin+` +`+plugin+` +decline`).MatchString(text) {
					t.Errorf("no decline of %s:\n%.3000s", plugin, text)
				}
			}
			if !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("want %s, got\n%.3000s", c.want, text)
			}
			if len(text) > 200<<10 {
				t.Errorf("%d bytes are printed", len(text))
			}
			noOrders(t, name, text)
		})
	}
}

// noOrders holds that a text tells a terminal nothing but where lines and columns are.
func noOrders(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: no UTF-8 in %q", what, text)
	}
	for _, line := range strings.Split(text, "\n") {
		for _, r := range line {
			if r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
				t.Errorf("%s: %U in %q", what, r, line)
				break
			}
		}
	}
}

// TestCountlessBackends are refused at once, in words.
func TestCountlessBackends(t *testing.T) {
	for _, raw := range []bool{false, true} {
		out, err := harness.Weir(t, harness.RunFolder(t), append(shouters("backends", raw, "eve"), "WEIR_DEADLINES__START=60s"), "run", "-q", "-n", "1", "--", "true").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "offers 100001 backends, a plugin at most 256") || len(out) > 4096 {
			t.Errorf("raw %v: %v\n%.2000s", raw, err, out)
		}
	}
}

// TestNoOrdersToTheTerminal has commands show what a plugin, a file's name, a variable or a file says.
func TestNoOrdersToTheTerminal(t *testing.T) {
	const esc = "\x1b]0;PWNED\a\x1b[2J\u009b31m\u202e\xff"
	folder := t.TempDir()
	script := filepath.Join(folder, "p"+esc)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '\\033]0;PWNED\\007\\033[2J\\302\\2331m\\342\\200\\256' >&2; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	matrix := filepath.Join(folder, "topo"+esc)
	if err := os.WriteFile(matrix, []byte("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shouting := shouters("orders", true, "eve")
	words := []string{"WEIR_PLUGINS__EVE__PATH=" + script}
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{shouting, []string{"plugins", "list"}},
		{shouting, []string{"plugins", "list", "--format", "json"}},
		{shouting, []string{"explain", "--ranks", "2"}},
		{shouting, []string{"explain", "--ranks", "2", "--format", "json"}},
		{shouting, []string{"run", "-n", "2", "--", "badrank", "nothing"}},
		{append([]string{"WEIR_LOG__FORMAT=json"}, shouting...), []string{"run", "-n", "2", "--", "badrank", "nothing"}},
		{append([]string{"WEIR_TELEMETRY__TRACES=console"}, shouting...), []string{"run", "-n", "2", "--", "badrank", "nothing"}},
		{append([]string{"WEIR_LOG__LEVEL=debug"}, words...), []string{"run", "-n", "2", "--", "badrank", "nothing"}},
		{words, []string{"plugins", "list"}},
		{words, []string{"config"}},
		{words, []string{"config", "--format", "json"}},
		{[]string{"WEIR_TELEMETRY__SERVICE_NAME=" + esc[:20]}, []string{"config"}},
		{nil, []string{"plugins", "inspect", script}},
		{nil, []string{"plugins", "test", script, "--run", "process/handshake"}},
		{nil, []string{"plugins", "new", filepath.Join(folder, "new"+esc), "--name", "x" + esc, "--kind", "schedule"}},
		{nil, []string{"explain", "--topo", matrix}},
		{nil, []string{"explain", "--topo", matrix, "--format", "json"}},
		{nil, []string{"explain", "--topo", folder + "/none" + esc}},
		{nil, []string{"topo", "--from", matrix}},
		{nil, []string{"topo", "--from", folder + "/none" + esc}},
		{nil, []string{"config", "-c", folder + "/none" + esc}},
		{nil, []string{"dump", script}},
		{nil, []string{"dump", folder + "/none" + esc}},
		{nil, []string{"no" + esc}},
		{nil, []string{"run", "--no" + esc}},
		{nil, []string{"run", "-n", "1", "--", "no" + esc}},
	} {
		out, _ := harness.Weir(t, harness.RunFolder(t), c.env, c.args...).CombinedOutput()
		if len(out) == 0 {
			t.Errorf("%q says nothing", c.args)
		}
		noOrders(t, fmt.Sprintf("%q", c.args), string(out))
	}
}

// TestRanksOutputIsTheirOwn: what a rank prints is passed on as it is.
func TestRanksOutputIsTheirOwn(t *testing.T) {
	out, err := harness.Weir(t, harness.RunFolder(t), nil, "run", "-q", "-n", "1", "--", "printf", `\033[1mbold\033[0m\377`).CombinedOutput()
	if err != nil || string(out) != "\x1b[1mbold\x1b[0m\xff" {
		t.Errorf("%v, %q", err, out)
	}
}
