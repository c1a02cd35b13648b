package cli

import (
	"log/slog"
	"slices"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/engine/pluginhost"
)

// starters are the commands that start processes.
var starters = []string{"run", "agent", "explain", "bench", "plugins", "schedule", "doctor"}

// roomAtAll is a look before threads are needed: Go ends a process that gets none.
func roomAtAll(args []string) error {
	if len(args) == 0 || !slices.Contains(starters, args[0]) || lo.Some(args, []string{"-h", "--help"}) {
		return nil
	}
	return limits.StartAtAll()
}

// ranksToStart is how many ranks a command will start.
func ranksToStart(c *cobra.Command, role role) int {
	if role != running {
		return 0
	}
	ranks, _ := c.Flags().GetInt("ranks") // 0 without such a flag
	return ranks
}

// roomToStart looks before anything is started whether the system's limits let it.
func roomToStart(logger *slog.Logger, cfg config.Config, ranks int) error {
	plugins := lo.CountBy(lo.Values(cfg.Plugins), func(p config.Plugin) bool { return !p.Disabled })
	if cfg.PluginDir != "" {
		found, _ := pluginhost.Discover(cfg.PluginDir) // whose errors come where they are started
		plugins += lo.CountBy(found, func(s pluginhost.Spec) bool { _, configured := cfg.Plugins[s.Name]; return !configured })
	}
	warning, err := limits.Start(plugins, ranks)
	if warning != "" {
		logger.Warn(warning)
	}
	return err
}
