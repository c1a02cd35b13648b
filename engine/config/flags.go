package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/providers/posflag"
	"github.com/spf13/pflag"
)

// keyAnnotation marks a flag that is configuration with the key that it sets.
const keyAnnotation = "weir_config_key"

// fileFlag names the configuration file.
const fileFlag = "config"

// Flags registers the flags that are configuration; Load reads those that were set.
func Flags(fs *pflag.FlagSet) {
	d := Default("")
	fs.StringP(fileFlag, "c", "", "read the configuration from this YAML `file`")
	annotate := func(name, key string) { fs.Lookup(name).Annotations = map[string][]string{keyAnnotation: {key}} }

	fs.String("deadline", "", fmt.Sprintf("longest `duration` that a rank waits for another one in an all-reduce (default %s)", text(d.Group.Deadline)))
	annotate("deadline", "group.deadline")
	fs.String("join-deadline", "", fmt.Sprintf("longest `duration` until all ranks have joined (default %s)", text(d.Group.JoinDeadline)))
	annotate("join-deadline", "group.join_deadline")
	fs.String("log-level", "", fmt.Sprintf("least severe `level` to log: %s (default %s)", strings.Join(logLevels, ", "), d.Log.Level))
	annotate("log-level", "log.level")
	fs.StringArray("plugin", nil, "load the plugin `NAME=PATH`; may be given several times")
	annotate("plugin", "plugins")
	fs.StringSlice("order", nil, "`backends` to ask first, in this order")
	annotate("order", "cascade.order")
	fs.StringSlice("disable", nil, "`backends` never to choose")
	annotate("disable", "cascade.disabled")
}

// readFlags reads the configuration flags that were set. Relative paths begin at dir. Every error names the flag.
func readFlags(fs *pflag.FlagSet, dir string) (layer, error) {
	l := layer{origins: map[string]string{}}
	if fs == nil {
		return l, nil
	}
	var failed error
	var err error
	// Without a koanf, posflag gives set flags only: defaults must not win over the file.
	l.values, err = posflag.ProviderWithFlag(fs, ".", nil, func(f *pflag.Flag) (string, any) {
		keys := f.Annotations[keyAnnotation]
		if !f.Changed || len(keys) == 0 || failed != nil {
			return "", nil
		}
		value, err := readFlag(f, keys[0], dir, l.origins)
		if err != nil {
			failed = fmt.Errorf("--%s: %w", f.Name, err)
			return "", nil
		}
		return keys[0], value
	}).Read()
	if failed != nil {
		return l, failed
	}
	return l, err
}

func readFlag(f *pflag.Flag, key, dir string, origins map[string]string) (any, error) {
	if key == "plugins" {
		return pluginFlag(f, dir, origins)
	}
	origins[key] = "--" + f.Name
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice(), nil
	}
	n := schema
	for p := range strings.SplitSeq(key, ".") {
		n = n.child(p)
	}
	return n.parse(f.Value.String(), untyped, dir)
}

// pluginFlag reads NAME=PATH, any number of times.
func pluginFlag(f *pflag.Flag, dir string, origins map[string]string) (map[string]any, error) {
	plugins := map[string]any{}
	for _, s := range f.Value.(pflag.SliceValue).GetSlice() {
		name, path, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("%q must be NAME=PATH, such as shm=bin/plugins/shm", s)
		}
		if err := checkKey("NAME", name); err != nil {
			return nil, err
		}
		if plugins[name] != nil {
			return nil, fmt.Errorf("plugin %s is given twice", name)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		plugins[name] = map[string]any{"path": path}
		origins["plugins."+name+".path"] = "--" + f.Name
	}
	return plugins, nil
}
