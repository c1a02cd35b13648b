package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/profiles"
)

// completionPatience bounds how long a shell waits for the names of backends: plugins are started to ask them.
const completionPatience = 3 * time.Second

// values is what may stand for a flag or an argument.
type values func(c *cobra.Command) []string

func fixed(v ...string) values { return func(*cobra.Command) []string { return v } }

// completeValues has a shell complete the values of flags, wherever a flag of that name is, and the arguments of commands.
func (a *app) completeValues(root *cobra.Command) {
	types := lo.Map(collective.DataTypes(), func(t collective.DataType, _ int) string { return t.String() })
	ops := lo.Map(collective.Ops(), func(o collective.Op, _ int) string { return o.String() })
	presets := lo.Map(topology.Presets(), func(p topology.PresetMachine, _ int) string { return p.Name })
	flags := map[string]values{
		"order": a.backends, "disable": a.backends, "backend": a.backends, "only": a.backends,
		"dtype": fixed(types...), "datatype": fixed(append(types, "all")...), "op": fixed(ops...),
		"memory":  fixed(lo.Map(collective.Memories(), func(m collective.Memory, _ int) string { return m.String() })...),
		"kind":    fixed(lo.Map(plan.Kinds(), func(k plan.Kind, _ int) string { return string(k) })...),
		"profile": fixed(append(profiles.Names(), "weir")...), "compare": fixed(append(profiles.Names(), "weir")...), "model": fixed(profiles.Models()...),
		"p2p": fixed("none", "reported", "verified", "failed"), "multicast": fixed("yes", "no"), "log-level": fixed("debug", "info", "warn", "error"),
		"bind": fixed("none", "core"), "place": fixed("out", "in", "both"), "lang": fixed("go", "python", "c"), "tls": fixed("auto", "on", "off"),
	}
	formats := map[string][]string{"topo": {"text", "json", "svg"}, "show": {"svg", "text"}}
	walk(root, func(c *cobra.Command) {
		for name, v := range flags {
			complete(c, name, v, cobra.ShellCompDirectiveNoFileComp)
		}
		complete(c, "format", fixed(lo.CoalesceSliceOrEmpty(formats[c.Name()], []string{"text", "json"})...), cobra.ShellCompDirectiveNoFileComp)
		for _, name := range []string{"topo", "from"} { // a file, too
			complete(c, name, fixed(presets...), cobra.ShellCompDirectiveDefault)
		}
		if c.Flags().Lookup("config") != nil {
			_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
		}
		if c.Parent() != nil && c.Parent().Name() == "schedule" {
			c.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return a.backends(c), cobra.ShellCompDirectiveNoFileComp
			}
		}
	})
}

func walk(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		walk(sub, f)
	}
}

// complete gives a flag, if the command has it, the values v; after a comma in what is typed they begin anew.
func complete(c *cobra.Command, flag string, v values, more cobra.ShellCompDirective) {
	if c.Flags().Lookup(flag) == nil {
		return
	}
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		all := lo.Map(v(c), func(s string, _ int) string { return before + s })
		return lo.Filter(all, func(s string, _ int) bool { return strings.HasPrefix(s, typed) }), more
	})
	if err != nil {
		panic(err) // a flag that exists, given twice: a fault of this file
	}
}

// backends are the names of all backends that the configuration's plugins offer; none if they cannot be asked.
func (a *app) backends(c *cobra.Command) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
	defer cancel()
	c.SetContext(ctx)
	quiet := *a
	quiet.stderr = io.Discard
	e, err := quiet.open(c, asking)
	if err != nil {
		return nil
	}
	names := lo.Map(e.candidates(), func(x dispatch.Candidate, _ int) string { return x.Info.Name })
	_ = e.close() // a shell cannot be told
	slices.Sort(names)
	return names
}
