package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/builtin"
)

// reloadPatience bounds a reload, whose steps have the configuration's deadlines.
const reloadPatience = 10 * time.Minute

// reloaded is what a reload has done.
type reloaded struct {
	Plugin  string               `json:"plugin"`
	Version string               `json:"version"`
	Path    string               `json:"path"`
	SHA256  string               `json:"sha256"`
	PID     int                  `json:"pid"`
	Was     int                  `json:"was"` // process that served before
	Groups  []agent.GroupUpgrade `json:"groups"`
}

func (a *app) reload() *cobra.Command {
	var sha256, format string
	var pid int
	c := &cobra.Command{
		Use:   "reload NAME",
		Short: "Replace a plugin of a running engine by its file as it is now",
		Long: `Start the plugin's file anew beside the process that serves, have all groups' classes in host memory decided once
more, prepare and try the plans in every rank while calls go on, and switch each group at one call number. When anything of
the new process fails nothing has changed and the old one serves on. It must offer the backends that it offered before.

Classes in device memory keep their plans. weir status shows what serves.

` + exitCodes,
		Example: "  weir plugins reload shm --sha256 \"$(sha256sum < bin/plugins/shm | cut -c -64)\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			folder, err := a.oneRun(c.Context(), pid)
			if err != nil {
				return err
			}
			var r reloaded
			values := url.Values{"name": {args[0]}, "sha256": {sha256}}
			if err := ask(c.Context(), reloadPatience, folder, http.MethodPost, "/plugins/reload", values, &r); err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(a.stdout, r)
			}
			return writeReloaded(a.stdout, r)
		},
	}
	c.Flags().StringVar(&sha256, "sha256", "", "the `checksum` that the file must have, in place of what the configuration says or an earlier reload")
	c.Flags().IntVar(&pid, "pid", 0, "the engine that is this `process`; needed if several run")
	formatFlag(c, &format)
	return c
}

// reload replaces a plugin of this engine.
func (e *engine) reload(ctx context.Context, g *agent.Agent, name, sha256 string) (reloaded, error) {
	next, err := e.host.Reload(ctx, name, sha256)
	if err != nil {
		return reloaded{}, err
	}
	status := next.Status()
	groups, err := g.Upgrade(ctx, agent.Upgrade{
		Plugin: name, Replaced: next.Replaced(),
		Candidates: func() []dispatch.Candidate { return append(next.Candidates(), builtin.Candidate()) }, Accept: next.Accept,
	})
	if err != nil {
		next.Refuse(context.WithoutCancel(ctx))
		return reloaded{}, fmt.Errorf("reload plugin %s: the old process serves on: %w", name, err)
	}
	e.logger.Info("plugin was replaced", "plugin", name, "pid", status.PID, "was", next.OldPID(), "sha256", status.SHA256)
	g.WhenUnused(next.Replaced(), func() { next.Retire(context.Background()) })
	return reloaded{
		Plugin: name, Version: status.Version, Path: status.Path, SHA256: status.SHA256, PID: status.PID, Was: next.OldPID(), Groups: groups,
	}, nil
}

func writeReloaded(w io.Writer, r reloaded) error {
	_, err := fmt.Fprintf(w, "plugin %s %s: process %d serves in place of %d\n  path    %s\n  sha256  %s\n", r.Plugin, r.Version, r.PID, r.Was, r.Path, r.SHA256)
	for _, g := range r.Groups {
		fmt.Fprintf(w, "  %s\n", g)
		if len(g.Kept) > 0 {
			fmt.Fprintf(w, "    keep their plans: %v\n", g.Kept)
		}
	}
	return err
}
