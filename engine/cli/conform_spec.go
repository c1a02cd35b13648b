package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// plugin is the plugin to test: the one that the user has started, or else the file, if there is one.
func (f *conformFlags) plugin(c *cobra.Command, args []string) (spec pluginhost.Spec, err error) {
	if spec, f.attached, err = attachedAlone(c); err != nil {
		return spec, err
	}
	if !f.attached {
		return f.spec(args[0])
	}
	for _, flag := range []string{"tls", "env", "start-deadline"} {
		if c.Flags().Changed(flag) {
			return spec, fmt.Errorf("--attach and --%s do not go together: the plugin has been started already", flag)
		}
	}
	if !c.Flags().Changed("deadline") {
		f.deadline = pluginhost.AttachedPatience // it may stand at a breakpoint
	}
	spec.Insecure = true
	spec.Settings, err = f.settingValues()
	return spec, err
}

// only are the rules to look at; nil for all.
func (f conformFlags) only() (only *regexp.Regexp, err error) {
	if f.deadline <= 0 || f.start <= 0 {
		return nil, errors.New("--deadline and --start-deadline: want a time above 0")
	}
	if f.run == "" {
		return nil, nil
	}
	if only, err = regexp.Compile(f.run); err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	if !lo.SomeBy(conformance.Rules(), func(r conformance.Rule) bool { return only.MatchString(r.Name) }) {
		return nil, fmt.Errorf("--run: no rule matches %q; `weir plugins test --list` lists them", f.run)
	}
	return only, nil
}

// spec is the plugin to start, if there is such a file.
func (f conformFlags) spec(path string) (spec pluginhost.Spec, err error) {
	spec = pluginhost.Spec{Name: calledAfter(path), Path: path, Insecure: f.tls == "off", Env: map[string]string{}}
	if f.tls != "on" && f.tls != "off" && f.tls != "auto" {
		return spec, fmt.Errorf("--tls: %q, want on, off or auto", f.tls)
	}
	for _, kv := range f.env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return spec, fmt.Errorf("--env: %q, want NAME=VALUE", kv)
		}
		spec.Env[name] = value
	}
	if spec.Settings, err = f.settingValues(); err != nil {
		return spec, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return spec, fmt.Errorf("there is no file %s: correct the path or build the plugin", path)
	case err != nil:
		return spec, fmt.Errorf("there is no plugin to test: %w", err)
	case !info.Mode().IsRegular():
		return spec, fmt.Errorf("%s is not a file: name the plugin's executable", path)
	case unix.Access(path, unix.X_OK) != nil:
		return spec, fmt.Errorf("%s is not executable: chmod +x it", path)
	}
	spec.Path, err = filepath.Abs(path)
	return spec, err
}

// settingValues are those of --setting.
func (f conformFlags) settingValues() (map[string]any, error) {
	values := map[string]any{}
	for _, kv := range f.settings {
		name, text, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--setting: %q, want NAME=VALUE", kv)
		}
		values[name] = settingOf(text)
		if err := pluginv1.CheckNumbers(name, values[name]); err != nil {
			return nil, fmt.Errorf("--setting: %w", err)
		}
	}
	return values, nil
}

// settingOf is the value that JSON text stands for; other text stands for itself.
func settingOf(text string) (value any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // what a float64 would round is refused later
	if !json.Valid([]byte(text)) || d.Decode(&value) != nil {
		return text
	}
	return value
}
