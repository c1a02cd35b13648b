package pluginhost_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/tests/await"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"/tmp/plugin1":                     "unix:/tmp/plugin1",
		"unix:/tmp/plugin1":                "unix:/tmp/plugin1",
		"unix:///tmp/plugin1":              "unix:/tmp/plugin1",
		"127.0.0.1:1234":                   "tcp:127.0.0.1:1234",
		"tcp:localhost:1234":               "tcp:localhost:1234",
		"[::1]:1234":                       "tcp:[::1]:1234",
		" 1|1|unix|/tmp/plugin1|grpc|\n":   "unix:/tmp/plugin1",
		"1|1|tcp|127.0.0.1:1234|grpc":      "tcp:127.0.0.1:1234",
		"1|1|unix|/tmp/plugin1|grpc||true": "unix:/tmp/plugin1",
	} {
		if a, err := pluginhost.ParseAddress(text); err != nil || a.String() != want {
			t.Errorf("%q: %s, %v; want %s", text, a, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                             "no address",
		"1234":                         "no path of a socket and no HOST:PORT",
		"tcp:127.0.0.1:":               "no path of a socket and no HOST:PORT",
		"example.com:1234":             "not on this machine",
		"10.0.0.1:1234":                "not on this machine",
		"1|1|unix|/tmp/p|netrpc":       `it serves "netrpc", want grpc`,
		"1|2|unix|/tmp/p|grpc":         "speaks version 2 of the plugin protocol",
		"1|1|unix|/tmp/p|grpc|MIIBkTC": "an engine started this plugin",
		"1|1|tcp|10.0.0.1:1|grpc":      "not on this machine",
		"what|ever":                    "not the handshake",
	} {
		if a, err := pluginhost.ParseAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v; want %q", text, a, err, want)
		}
	}
}

// TestAttached: a process that somebody else started is asked like any other, but it is neither killed nor started again nor
// replaced.
func TestAttached(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeEnv+"=good", "WEIR_TEST_BACKEND=own", pluginv1.MagicCookieKey+"="+pluginv1.MagicCookieValue, "TMPDIR=/tmp")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, err := pluginhost.ParseAddress(line)
	if err != nil {
		t.Fatal(err)
	}
	opts, log := options(t)
	opts.CallTimeout = time.Nanosecond // which holds for others
	for range 2 {
		h := start(t, opts, pluginhost.Spec{Name: "own", Attach: address})
		c := h.Candidates()[0]
		if s := h.Plugins()[0]; s.Err != nil || s.PID != cmd.Process.Pid || c.Info.Name != "own" {
			t.Fatalf("status %+v, candidate %+v", s, c.Info)
		}
		req := backend.Request{Group: collective.HostGroup("g", 2)}
		if _, err := c.Backend.Accept(t.Context(), req); err != nil {
			t.Error(err)
		}
		h.Kill(c.Process, errors.New("it dawdles"))
		if _, err := h.Reload(t.Context(), "own", ""); err == nil || !strings.Contains(err.Error(), "it is attached") {
			t.Errorf("reloaded: %v", err)
		}
		if _, err := c.Backend.Accept(t.Context(), req); err != nil {
			t.Errorf("after it was to be killed: %v", err)
		}
		h.Close()
	}
	if !strings.Contains(log.String(), "never killed") {
		t.Errorf("log:\n%s", log)
	}
	h := start(t, opts, pluginhost.Spec{Name: "own", Attach: address})
	c := h.Candidates()[0]
	_, _ = cmd.Process.Kill(), cmd.Wait()
	await.Until(t, "the fault", func() bool {
		_, err := c.Backend.Accept(t.Context(), backend.Request{Group: collective.HostGroup("g", 2)})
		return backend.ReasonFor(err).Code == backend.PluginCrashed
	})
	ctx := await.Context(t, await.Plenty)
	if h.Await(ctx, "own") || ctx.Err() != nil {
		t.Error("a plugin that is not started again was waited for")
	}
}

// TestDocumentedHandshakes: the lines that docs/authors shows are handshakes.
func TestDocumentedHandshakes(t *testing.T) {
	for _, name := range []string{"debugging.md", "languages.md"} {
		text, err := os.ReadFile("../../docs/authors/" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines := regexp.MustCompile(`(?m)^ *(1\|.*)$`).FindAllSubmatch(text, -1)
		for _, l := range lines {
			if _, err := pluginhost.ParseAddress(string(l[1])); err != nil {
				t.Errorf("%s: %s: %v", name, l[1], err)
			}
		}
		if len(lines) == 0 {
			t.Errorf("%s shows none", name)
		}
	}
}
