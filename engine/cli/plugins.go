package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/pluginhost"
)

func (a *app) plugins() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugins",
		Short: "Look at the plugins of this configuration",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var format string
	list := &cobra.Command{
		Use:   "list",
		Short: "Start every plugin and list what each is and advertises",
		Long: `Start every plugin, ask it to describe itself, and print for each its path, checksum (as the configuration's
plugins.NAME.sha256 takes it), process id, how long it took to start, and its backends with what they require.`,
		Example: "  weir plugins list -c weir.yaml --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			e, err := a.open(c, asking)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, e.close()) }()
			all := e.host.Plugins()
			if format == "json" {
				return writePluginsJSON(a.stdout, all)
			}
			return writePlugins(a.stdout, all)
		},
	}
	config.Flags(list.Flags())
	attachFlag(list)
	formatFlag(list, &format)
	c.AddCommand(list, a.newPlugin(), a.inspect(), a.conform(), a.reload())
	return c
}

func writePlugins(w io.Writer, all []pluginhost.Status) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no plugins: put executables into plugin_dir or name them in the configuration")
		return err
	}
	for _, p := range all {
		fmt.Fprintf(w, "%s %s\n  path    %s\n  sha256  %s\n  process %d, started %s, ready after %s\n", p.Name, p.Version, p.Path, p.SHA256, p.PID,
			p.Started.Format(time.RFC3339), p.StartDuration.Round(time.Millisecond))
		if p.Err != nil {
			fmt.Fprintf(w, "  serves nothing: %s\n", p.Err)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, b := range p.Backends {
			fmt.Fprintf(t, "  %s\t%s\tpriority %d\t%s\n", b.Name, b.Kind, b.Priority, b.Description)
			fmt.Fprintf(t, "  \t\trequires\t%s\n", strings.Join(b.Requirements.Describe(), "; "))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// pluginJSON is a plugin as `weir plugins list --format json` prints it.
type pluginJSON struct {
	Name     string        `json:"name"`
	Version  string        `json:"version"`
	Path     string        `json:"path"`
	SHA256   string        `json:"sha256"`
	PID      int           `json:"pid"`
	Started  time.Time     `json:"started"`
	StartMS  float64       `json:"start_ms"`
	Error    string        `json:"error,omitempty"`
	Backends []backendJSON `json:"backends"`
}

type backendJSON struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Kind         string   `json:"kind"`
	Priority     int      `json:"priority"`
	Requirements []string `json:"requirements"`
}

func writePluginsJSON(w io.Writer, all []pluginhost.Status) error {
	list := lo.Map(all, func(p pluginhost.Status, _ int) pluginJSON {
		j := pluginJSON{
			Name: p.Name, Version: p.Version, Path: p.Path, SHA256: p.SHA256, PID: p.PID, Started: p.Started,
			StartMS: float64(p.StartDuration.Microseconds()) / 1000,
			Backends: lo.Map(p.Backends, func(b backend.Info, _ int) backendJSON {
				return backendJSON{b.Name, b.Description, string(b.Kind), b.Priority, b.Requirements.Describe()}
			}),
		}
		if p.Err != nil {
			j.Error = p.Err.Error()
		}
		return j
	})
	return encodeJSON(w, map[string]any{"plugins": list})
}

func encodeJSON(w io.Writer, v any) error { return explain.Encode(w, v) }
