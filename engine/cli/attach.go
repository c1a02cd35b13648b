package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/pluginhost"
)

const attachName = "attach"

// attachFlag gives a command --attach. open reads it.
func attachFlag(c *cobra.Command) {
	c.Flags().StringArray(attachName, nil, "use the plugin that you have started yourself, as `NAME=ADDRESS`, in place of one that weir starts; no deadline\n"+
		"ends anything then (docs/authors/debugging.md). May be given several times")
}

// attachments are the plugins that the user has started, by name.
func attachments(c *cobra.Command) (map[string]pluginhost.Address, error) {
	if c.Flags().Lookup(attachName) == nil {
		return nil, nil
	}
	given, err := c.Flags().GetStringArray(attachName)
	if err != nil {
		return nil, err
	}
	found := map[string]pluginhost.Address{}
	for _, text := range given {
		name, where, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--attach: %q, want NAME=ADDRESS, such as my-ring=/tmp/plugin123", text)
		}
		if _, twice := found[name]; twice {
			return nil, fmt.Errorf("--attach: %s twice", name)
		}
		if found[name], err = pluginhost.ParseAddress(where); err != nil {
			return nil, fmt.Errorf("--attach %s: %w", name, err)
		}
	}
	return found, nil
}

// onePlugin checks the arguments of a command about one plugin: its path, or --attach once.
func onePlugin(c *cobra.Command, args []string) error {
	given, err := c.Flags().GetStringArray(attachName)
	if err == nil && len(args)+len(given) != 1 {
		err = fmt.Errorf("give one plugin: its path, or --attach NAME=ADDRESS if you have started it yourself; there are %d", len(args)+len(given))
	}
	return err
}

// attachedAlone is the plugin that a command about one is given with --attach; false if it is given a path.
func attachedAlone(c *cobra.Command) (spec pluginhost.Spec, ok bool, err error) {
	found, err := attachments(c)
	for name, where := range found {
		spec, ok = pluginhost.Spec{Name: name, Attach: where}, true
	}
	return spec, ok, err
}

// noAttach is the error for --attach to a command without it.
func noAttach(c *cobra.Command) error {
	return fmt.Errorf("--attach: `%s` starts no plugin that yours could take the place of; run, agent, bench, explain, schedule show and plugins list, inspect and test do", c.CommandPath())
}

// patient is the configuration with deadlines that a breakpoint does not meet.
func patient(c config.Config) config.Config {
	c.Group.Deadline, c.Group.JoinDeadline = pluginhost.AttachedPatience, pluginhost.AttachedPatience
	c.Deadlines = config.Deadlines{
		Start: c.Deadlines.Start, // of the plugins that weir starts
		Call:  pluginhost.AttachedPatience, Prepare: pluginhost.AttachedPatience, SelfTest: pluginhost.AttachedPatience,
		Worker: pluginhost.AttachedPatience,
	}
	return c
}

// attachTo puts the user's plugins in the place of those of their names, or beside the others.
func attachTo(specs []pluginhost.Spec, to map[string]pluginhost.Address, cfg config.Config) []pluginhost.Spec {
	specs = lo.Reject(specs, func(s pluginhost.Spec, _ int) bool { return lo.HasKey(to, s.Name) })
	for name, where := range to {
		specs = append(specs, pluginhost.Spec{Name: name, Attach: where, Settings: cfg.Plugins[name].Settings})
	}
	slices.SortFunc(specs, func(a, b pluginhost.Spec) int { return strings.Compare(a.Name, b.Name) })
	return specs
}
