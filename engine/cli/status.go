package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/terminal"
)

func (a *app) status() *cobra.Command {
	var format string
	var pid int
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the engines that run, their groups, backends and counts",
		Long: `Show this user's running engines (weir run, weir agent): their plugins, and for each group of ranks what every rank
is doing, which backend serves which request class and byte counts, and how often it has. A backend without byte counts
no longer serves its class; graphs that were captured with it keep it.

Calls are those of rank 0; calls in a replayed CUDA graph are not counted.

` + exitCodes,
		Example: "  weir status --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			all, err := a.runs(c.Context(), pid, false)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(a.stdout, all)
			}
			return writeRuns(a.stdout, all)
		},
	}
	formatFlag(c, &format)
	c.Flags().IntVar(&pid, "pid", 0, "only the engine that is this `process`")
	return c
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

func writeRuns(w io.Writer, all []runStatus) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no engine of this user runs")
		return err
	}
	w = terminal.New(w)
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n  process %d since %s, ranks join at %s\n", plain.Line(r.Command), r.PID, r.Started.Format(time.DateTime), plain.Line(r.Socket))
		for _, p := range r.Plugins {
			fmt.Fprintf(w, "  plugin %s\n", p.words())
		}
		for _, g := range r.Groups {
			writeGroup(w, g)
		}
	}
	return nil
}

func (p pluginStatus) words() string {
	s := p.Name
	if p.Version != "" {
		s += " " + p.Version
	}
	s += fmt.Sprintf(", process %d", p.PID)
	if p.Restarts > 0 {
		s += fmt.Sprintf(", restarted %d times", p.Restarts)
	}
	if p.Error != "" {
		s += ": " + p.Error
	}
	return s
}

func writeGroup(w io.Writer, g agent.GroupStatus) {
	fmt.Fprintf(w, "\n  group %s of %s, epoch %d\n", g.ID, backend.Count(len(g.Ranks), "rank"), g.Epoch)
	if g.Failed != "" {
		fmt.Fprintf(w, "    failed: %s\n", g.Failed)
	}
	if g.Switch != nil {
		fmt.Fprintf(w, "    new plans from all-reduce %d on; ranks that have not come to it: %v\n", g.Switch.Call, g.Switch.Ranks)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "    RANK\tPROCESS\tCALLS\tDOING")
	for _, r := range g.Ranks {
		fmt.Fprintf(t, "    %d\t%d\t%d\t%s\n", r.Rank, r.PID, r.Calls, r.Doing)
	}
	_ = t.Flush()
	if len(g.Classes) == 0 {
		return
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "    CLASS\tEPOCH\tBACKEND\tSERVES\tCALLS\tBYTES")
	for _, c := range g.Classes {
		for i, b := range c.Backends {
			class, epoch := c.Class, fmt.Sprint(c.Epoch)
			if i > 0 {
				class, epoch = "", ""
			}
			fmt.Fprintf(t, "    %s\t%s\t%s\t%s\t%d\t%d\n", class, epoch, b.Backend, lo.CoalesceOrEmpty(b.Serves, "no longer"), b.Calls, b.Bytes)
		}
	}
	_ = t.Flush()
}
