package config

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	l := mustLoad(t, "", nil, "--deadline=5s", "--join-deadline", "10s", "--log-level=warn",
		"--plugin", "a=/p/a", "--plugin=b=/p/b=c,d", "--order", "x,y", "--order=z", "--disable=w")
	want := Default("/opt/weir/bin/weir")
	want.Group.Deadline, want.Group.JoinDeadline = 5*time.Second, 10*time.Second
	want.Log.Level = "warn"
	want.Cascade.Order, want.Cascade.Disabled = []string{"x", "y", "z"}, []string{"w"}
	want.Plugins = map[string]Plugin{"a": {Path: "/p/a", TLS: true}, "b": {Path: "/p/b=c,d", TLS: true}}
	if diff := cmp.Diff(want, l.Config); diff != "" {
		t.Error(diff)
	}
	if got := l.Origin("plugins.b.path"); got != "--plugin" {
		t.Errorf("origin %q", got)
	}
	if l := mustLoad(t, "cascade: {order: [a]}\n", nil, "--order="); len(l.Config.Cascade.Order) != 0 {
		t.Errorf("an empty flag must empty the list, got %v", l.Config.Cascade.Order)
	}
}

func TestFlagErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"bare duration": {[]string{"--deadline=5"}, `--deadline: duration 5 has no unit; write "5s" for seconds or "5ms" for milliseconds`},
		"not positive":  {[]string{"--deadline=0s"}, "--deadline: group.deadline is 0s; it must be greater than zero"},
		"level":         {[]string{"--log-level=loud"}, `--log-level: log.level is "loud"; use one of debug, info, warn, error`},
		"no path":       {[]string{"--plugin=shm"}, `--plugin: "shm" must be NAME=PATH, such as shm=bin/plugins/shm`},
		"empty path":    {[]string{"--plugin=shm="}, `--plugin: "shm=" must be NAME=PATH, such as shm=bin/plugins/shm`},
		"name":          {[]string{"--plugin=a.b=/x"}, `--plugin: plugin name "a.b" contains a dot; use lower-case letters, digits and "-", such as "a-b"`},
		"twice":         {[]string{"--plugin=a=/x", "--plugin=a=/y"}, "--plugin: plugin a is given twice"},
		"order twice":   {[]string{"--order=a,b,a"}, "--order: cascade.order names a twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", nil, c.args...)
			wantError(t, err, c.want)
		})
	}
}

// A flag that was not set must not win over the file, whatever its default.
func TestFlagDefaultsDoNotCount(t *testing.T) {
	l := mustLoad(t, "group: {deadline: 7s}\ncascade: {order: [a]}\nlog: {level: error}\n", nil, "-n8")
	if l.Config.Group.Deadline != 7*time.Second || len(l.Config.Cascade.Order) != 1 || l.Config.Log.Level != "error" {
		t.Errorf("got %+v", l.Config)
	}
}

func TestFlagHelpNamesDefaults(t *testing.T) {
	fs := pflag.NewFlagSet("weir", pflag.ContinueOnError)
	Flags(fs)
	for _, want := range []string{"-c, --config file", "--deadline duration", "(default 30s)", "--plugin NAME=PATH", "(default info)"} {
		if !strings.Contains(fs.FlagUsages(), want) {
			t.Errorf("help lacks %q:\n%s", want, fs.FlagUsages())
		}
	}
}

func TestSizeFlag(t *testing.T) {
	size := 4 * KiB
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Var(&size, "size", "message `size`")
	for arg, want := range map[string]Size{"65536": 64 * KiB, "64KiB": 64 * KiB, "0": 0} {
		if err := fs.Parse([]string{"--size=" + arg}); err != nil || size != want {
			t.Errorf("%s: %d, error %v", arg, size, err)
		}
	}
	size = KiB
	for _, arg := range []string{"-1", "", "64KB", "1.5KiB"} {
		if err := fs.Parse([]string{"--size=" + arg}); err == nil || size != KiB {
			t.Errorf("%q: error %v, size %d", arg, err, size)
		}
	}
	if !filepath.IsAbs(mustLoad(t, "", nil, "--plugin=a=b").Config.Plugins["a"].Path) {
		t.Error("a relative plugin path must become absolute")
	}
}
