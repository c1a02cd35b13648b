package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Source is where a configuration is read from; parts left out say nothing.
type Source struct {
	File    string         // YAML file; "" means the one that --config of Flags names, if it does. None is looked for.
	Environ []string       // such as os.Environ()
	Flags   *pflag.FlagSet // parsed; Flags registered the ones that count
	Exe     string         // path of the weir executable, beside which plugins are found
}

// Loaded is an effective configuration that knows where each value came from.
type Loaded struct {
	Config  Config
	origins map[string]string
}

// Load reads all sources, each winning over the one before: defaults, file, environment, flags. It is strict: the error,
// one line, says what is wrong, where, and what to do.
func Load(src Source) (*Loaded, error) {
	dir, err := filepath.Abs(".")
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	path, err := src.file()
	if err != nil {
		return nil, err
	}
	k := koanf.New(".")
	l := &Loaded{Config: Default(src.Exe), origins: map[string]string{}}
	for _, read := range []func() (layer, error){
		func() (layer, error) { return readFile(path) },
		func() (layer, error) { return readEnviron(src.Environ, dir) },
		func() (layer, error) { return readFlags(src.Flags, dir) },
	} {
		found, err := read()
		if err != nil {
			return nil, err
		}
		if err := k.Load(found, nil); err != nil {
			return nil, fmt.Errorf("merge configuration: %w", err)
		}
		maps.Copy(l.origins, found.origins)
	}
	if err := decode(k, &l.Config); err != nil {
		return nil, fmt.Errorf("decode configuration: %w", err)
	}
	if err := l.complete(dir); err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return l, nil
}

func (s Source) file() (string, error) {
	if s.File != "" || s.Flags == nil {
		return s.File, nil
	}
	f := s.Flags.Lookup(fileFlag)
	if f == nil || !f.Changed {
		return "", nil
	}
	if f.Value.String() == "" {
		return "", errors.New("--config: the name of the file is empty")
	}
	return f.Value.String(), nil
}

// decode fills in c. The layers have checked everything; decoding is strict all the same, so that a gap in the checks
// shows as an error and not as a value that was ignored.
func decode(k *koanf.Koanf, c *Config) error {
	return k.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		ErrorUnused: true,
		MatchName:   func(key, field string) bool { return key == field },
		DecodeHook: func(from, to reflect.Type, data any) (any, error) {
			values, ok := data.(map[string]any)
			if to != reflect.TypeFor[Plugin]() || !ok {
				return data, nil
			}
			withDefaults := map[string]any{"tls": defaultPlugin().TLS}
			maps.Copy(withDefaults, values)
			return withDefaults, nil
		},
	}})
}

// complete works out the values that follow from others: the folder of plugins as an absolute path, the executables of
// plugins that are named without a path, and checksums in one spelling.
func (l *Loaded) complete(dir string) error {
	c := &l.Config
	if c.PluginDir != "" && !filepath.IsAbs(c.PluginDir) { // the default, from a relative Exe
		c.PluginDir = filepath.Join(dir, c.PluginDir)
	}
	for name, p := range c.Plugins {
		p.SHA256 = strings.ToLower(p.SHA256)
		switch {
		case p.Path != "":
		case c.PluginDir != "":
			p.Path = filepath.Join(c.PluginDir, name)
		case !p.Disabled:
			return fmt.Errorf("%s: plugins.%s has no path and there is no plugin_dir; set plugins.%s.path", l.section("plugins."+name), name, name)
		}
		c.Plugins[name] = p
	}
	return nil
}
