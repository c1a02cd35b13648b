package pluginhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/weir-project/weir/engine/pluginhost"
)

func TestUserErrors(t *testing.T) {
	good := spec(t, "good", "good")
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // past the umask
			t.Fatal(err)
		}
		return path
	}
	withPath := func(path string) pluginhost.Spec { return pluginhost.Spec{Name: "bad", Path: path} }
	settings := func(mode string, values map[string]any) pluginhost.Spec {
		s := spec(t, "bad", mode)
		s.Settings = values
		return s
	}
	checksum := spec(t, "bad", "good")
	checksum.SHA256 = strings.Repeat("0", 64)
	twice := spec(t, "bad", "good")
	twice.Env["WEIR_TEST_BACKEND"] = "good"
	misnamed := spec(t, "bad", "good")
	misnamed.Env["WEIR_TEST_BACKEND"] = "Bad_Name"
	for name, c := range map[string]struct {
		spec pluginhost.Spec
		want string
	}{
		"missing":              {withPath(filepath.Join(dir, "absent")), "there is no file"},
		"dangling link":        {withPath(link(t, dir)), "there is no file"},
		"no path":              {withPath(""), "no path"},
		"folder":               {withPath(dir), "is a folder"},
		"not executable":       {withPath(file("plain", "", 0o600)), "not executable"},
		"writable by others":   {withPath(file("open", "#!/bin/sh\n", 0o777)), "may be changed by other users (mode 0777): chmod go-w "},
		"not a program":        {withPath(file("text", "just text", 0o700)), "exec format error"},
		"wrong checksum":       {checksum, "SHA-256"},
		"bad name":             {pluginhost.Spec{Name: "Bad Name", Path: good.Path}, "lower-case"},
		"same name":            {spec(t, "good", "good"), "two plugins have this name"},
		"same backend":         {twice, "good"},
		"exits without a word": {withPath(file("true", "#!/bin/sh\n", 0o700)), "ended without a handshake"},
		"prints and exits":     {withPath(file("echo", "#!/bin/sh\necho hello\nexit 1\n", 0o700)), `"hello", not the handshake`},
		"prints first":         {spec(t, "bad", "stdout"), "not the handshake"},
		"prints without end":   {spec(t, "bad", "long"), "not the handshake"},
		"another version":      {spec(t, "bad", "version"), "speaks version 99 of the plugin protocol, this engine speaks 1"},
		"another go-plugin":    {spec(t, "bad", "core"), "speaks version 7 of go-plugin"},
		"net/rpc":              {spec(t, "bad", "netrpc"), `"netrpc", want grpc`},
		"no certificate":       {spec(t, "bad", "notls"), "set tls: false"},
		"unknown network":      {spec(t, "bad", "carrier"), "pigeon"},
		"foreign service":      {spec(t, "bad", "foreign"), "not a Weir plugin"},
		"unknown setting":      {settings("settings", map[string]any{"tile": 1}), `unknown setting "tile"; known are: tile_bytes`},
		"setting's type":       {settings("settings", map[string]any{"tile_bytes": "big"}), "tile_bytes: string where int"},
		"needless settings":    {settings("good", map[string]any{"x": 1}), `unknown setting "x"; known are: none`},
		"untellable settings":  {settings("good", map[string]any{"x": func() {}}), "settings"},
		"name in Go":           {misnamed, `name "Bad_Name-plugin": use lower-case letters`},
		"no interpreter":       {withPath(file("lost", "#!/nowhere/python -u\n", 0o700)), `its first line names the interpreter "/nowhere/python", which is not there`},
		"Windows line end":     {withPath(file("crlf", "#!/bin/sh\r\n", 0o700)), `names the interpreter "/bin/sh\r", which is not there`},
		"script without #!":    {withPath(file("bare", "import os\n", 0o700)), "has no #! line"},
		"invalid info":         {spec(t, "bad", "good:bad-info"), `unknown kind "magic"`},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			opts, log := options(t)
			var pids []int
			var mu sync.Mutex
			opts.OnStart = func(pgid int) {
				mu.Lock()
				defer mu.Unlock()
				pids = append(pids, pgid)
			}
			h, err := pluginhost.Start(t.Context(), []pluginhost.Spec{good, c.spec}, opts)
			if err == nil {
				h.Close()
				t.Fatalf("no error, candidates %+v\n%s", h.Candidates(), log)
			}
			for _, want := range []string{"plugin", c.want} {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %q, want one line with %q", err, want)
				}
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d is still there", pid)
				}
			}
			if left, _ := os.ReadDir(opts.Dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func link(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), path); err != nil {
		t.Fatal(err)
	}
	return path
}
