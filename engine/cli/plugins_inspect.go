package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

func (a *app) inspect() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "inspect {PATH | --attach NAME=ADDRESS}",
		Short: "Start one plugin by its path and show what it advertises",
		Long: `Start the plugin at PATH, ask it to describe itself, and print its name, version and protocol and every requirement of each
backend: what is advertised is what the engine checks, so this is what decides before the plugin is asked. The plugin
need not be in the configuration; deadlines.start bounds how long it may take to come up, and settings are those of
plugins.NAME if its path there is PATH. A plugin that has no TLS is inspected without. With --attach it is one that you have
started, and settings are those of plugins.NAME.

` + exitCodes,
		Example: "  weir plugins inspect bin/plugins/shm\n  weir plugins inspect ./mine --format json",
		Args:    onePlugin,
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			x, err := a.inspected(c, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if format == "json" {
				return writeInspectedJSON(a.stdout, x)
			}
			return writeInspected(a.stdout, x)
		},
	}
	config.Flags(c.Flags())
	attachFlag(c)
	formatFlag(c, &format)
	return c
}

// inspected is what one plugin is and advertises.
type inspected struct {
	pluginhost.Status
	tls, attached bool
}

// inspected starts a plugin, or attaches to the one of --attach, has it describe itself, and stops it, or lets go of it.
func (a *app) inspected(c *cobra.Command, path string) (inspected, error) {
	l, err := a.load(c)
	if err != nil {
		return inspected{}, err
	}
	spec, attached, err := attachedAlone(c)
	if err != nil {
		return inspected{}, usageError{err}
	}
	x := inspected{tls: !attached, attached: attached}
	if attached {
		spec.Settings = l.Config.Plugins[spec.Name].Settings
	} else {
		spec = specAt(path, l.Config)
	}
	x.Status, err = a.describe(c, spec, l.Config)
	if errors.Is(err, pluginhost.ErrNoTLS) {
		x.tls, spec.Insecure = false, true
		x.Status, err = a.describe(c, spec, l.Config)
	}
	return x, err
}

// specAt is the plugin at a path, with what the configuration says of it.
func specAt(path string, cfg config.Config) pluginhost.Spec {
	s := pluginhost.Spec{Name: pluginNameOf(path), Path: path}
	for name, p := range cfg.Plugins {
		if absolute, err := filepath.Abs(path); err == nil && p.Path == absolute {
			return pluginhost.Spec{Name: name, Path: path, SHA256: p.SHA256, Insecure: !p.TLS, Env: p.Env, Settings: p.Settings}
		}
	}
	return s
}

// describe returns the status of a plugin that has come up. The error is for the plugin's author.
func (a *app) describe(c *cobra.Command, spec pluginhost.Spec, cfg config.Config) (pluginhost.Status, error) {
	none := pluginhost.Status{}
	if err := roomToStart(a.logger(cfg.Log), cfg, 0); err != nil {
		return none, err
	}
	folder, err := launch.NewFolder(a.getenv)
	if err != nil {
		return none, err
	}
	defer func() { _ = folder.Remove() }() // swept later
	reaper, err := a.startReaper(folder.Path, "", asking)
	if err != nil {
		return none, err
	}
	defer reaper.Close()
	host, err := pluginhost.Start(c.Context(), []pluginhost.Spec{spec}, pluginhost.Options{
		Dir: folder.Path, StartTimeout: cfg.Deadlines.Start, CallTimeout: cfg.Deadlines.Call, Logger: a.logger(cfg.Log),
		OnStart: reaper.Track, OnEnd: reaper.Forget, Restart: pluginhost.Restart(cfg.Restart),
	})
	if err != nil {
		if c.Context().Err() != nil {
			return none, context.Cause(c.Context())
		}
		return none, usageError{err}
	}
	defer host.Close()
	s := host.Plugins()[0]
	if s.Err != nil {
		return s, usageError{s.Err}
	}
	return s, nil
}

func writeInspected(w io.Writer, x inspected) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "plugin\t%s\nversion\t%s\n", x.Offered, x.Version)
	if x.attached {
		fmt.Fprintf(t, "attached to\t%s\nprocess\t%d\nprotocol\t%d over gRPC\n", x.Path, x.PID, pluginv1.ProtocolVersion)
	} else {
		fmt.Fprintf(t, "path\t%s\nsha256\t%s\nprotocol\t%s\nready after\t%s\n", x.Path, x.SHA256, protocol(x.tls), x.StartDuration.Round(time.Millisecond))
	}
	for _, b := range x.Backends {
		fmt.Fprintf(t, "\nbackend\t%s\n  kind\t%s\n  priority\t%d\n  about\t%s\n", b.Name, b.Kind, b.Priority, b.Description)
		var open []string
		for _, f := range b.Requirements.Fields() {
			if len(f.Needs) == 0 {
				open = append(open, f.Name)
			}
			for i, line := range f.Needs {
				fmt.Fprintf(t, "  %s\t%s\n", lo.Ternary(i == 0, f.Name, ""), line)
			}
		}
		for i, line := range wrapped(open) {
			fmt.Fprintf(t, "  %s\t%s\n", lo.Ternary(i == 0, "requires nothing of", ""), line)
		}
	}
	return t.Flush()
}

// wrapped puts names on lines of a terminal.
func wrapped(names []string) []string {
	const most = 90
	var lines []string
	for _, name := range names {
		if n := len(lines); n > 0 && len(lines[n-1])+len(name) < most {
			lines[n-1] += ", " + name
		} else {
			lines = append(lines, name)
		}
	}
	return lines
}

func protocol(tls bool) string {
	return fmt.Sprintf("%d over gRPC%s", pluginv1.ProtocolVersion, lo.Ternary(tls, " with TLS", " without TLS (plugins.NAME.tls: false)"))
}

type inspectedJSON struct {
	Plugin   string                 `json:"plugin"`
	Version  string                 `json:"version"`
	Path     string                 `json:"path"`
	SHA256   string                 `json:"sha256"`
	Protocol int                    `json:"protocol"`
	TLS      bool                   `json:"tls"`
	StartMS  float64                `json:"start_ms"`
	Backends []inspectedBackendJSON `json:"backends"`
}

type inspectedBackendJSON struct {
	Name         string              `json:"name"`
	Description  string              `json:"description"`
	Kind         string              `json:"kind"`
	Priority     int                 `json:"priority"`
	Requirements json.RawMessage     `json:"requirements"` // as the contract has them
	Words        map[string][]string `json:"words"`
}

func writeInspectedJSON(w io.Writer, x inspected) error {
	out := inspectedJSON{
		Plugin: x.Offered, Version: x.Version, Path: x.Path, SHA256: x.SHA256, Protocol: pluginv1.ProtocolVersion, TLS: x.tls,
		StartMS: float64(x.StartDuration.Microseconds()) / 1000,
	}
	for _, b := range x.Backends {
		raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(pluginv1.FromInfo(b).Requirements)
		if err != nil {
			return err
		}
		needs := lo.Filter(b.Requirements.Fields(), func(f backend.Field, _ int) bool { return len(f.Needs) > 0 })
		out.Backends = append(out.Backends, inspectedBackendJSON{
			b.Name, b.Description, string(b.Kind), b.Priority, raw,
			lo.Associate(needs, func(f backend.Field) (string, []string) { return f.Name, f.Needs }),
		})
	}
	return encodeJSON(w, out)
}

// pluginNameOf makes a plugin's name of the name of its file.
func pluginNameOf(path string) string {
	base := strings.ToLower(path[strings.LastIndexByte(path, '/')+1:])
	name := strings.Trim(strings.Map(func(r rune) rune {
		return lo.Ternary(r >= 'a' && r <= 'z' || r >= '0' && r <= '9', r, '-')
	}, base), "-")
	return lo.CoalesceOrEmpty(name, "plugin")
}
