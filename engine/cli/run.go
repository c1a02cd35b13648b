package cli

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/sdk/rank"
)

func (a *app) run() *cobra.Command {
	var ranks int
	var quiet, label bool
	var bind string
	c := &cobra.Command{
		Use: "run -n N [flags] -- PROGRAM [ARGUMENT…]",

		DisableFlagsInUseLine: true, // they would be the program's
		Short:                 "Run a program as N ranks on this host",
		Long: `Start the plugins, then PROGRAM N times. Each process is a rank: it finds the agent and its number in
` + rank.EnvSocket + `, ` + rank.EnvRank + ` and ` + rank.EnvWorldSize + ` and joins with the SDK (sdk/rank).
The topology and each decision are printed on standard error; the program's output is passed on, its standard input is
empty. When a rank fails the others are stopped. When weir ends, however it ends, nothing that it started is left.

` + exitCodes,
		Example: "  weir run -c weir.yaml -n 8 -- ./program --flag",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no program to run; give it after --, such as `weir run -n 2 -- ./program`")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := collective.CheckWorldSize(ranks); err != nil {
				return usageError{fmt.Errorf("--ranks: %w, such as -n 8", err)}
			}
			if bind != "none" && bind != "core" {
				return usageError{fmt.Errorf("--bind: %q, want none or core", bind)}
			}
			if _, err := exec.LookPath(args[0]); err != nil {
				return usageError{fmt.Errorf("there is no program %q to run: %w", args[0], err)}
			}
			e, err := a.open(c, running)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, e.close()) }()
			g, err := a.listen(c.Context(), e, ranks, quiet)
			if err != nil {
				return usageError{err}
			}
			defer func() { err = firstError(err, g.Close()) }()
			defer a.control(e, g)()
			if !quiet {
				_ = discover.Describe(a.stderr, e.topology) // a closed standard error is no reason not to run
			}
			r := a.ranks(e, g, args, ranks)
			r.Label, r.Bind = label, bind == "core"
			return launch.Run(c.Context(), r)
		},
	}
	config.Flags(c.Flags())
	attachFlag(c)
	c.Flags().IntVarP(&ranks, "ranks", "n", 0, "`number` of ranks")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not print the topology and the decisions")
	c.Flags().BoolVar(&label, "label", false, "put the rank's number before each line of its output")
	c.Flags().StringVar(&bind, "bind", "none", "`what` to bind each rank to: none, or core (rank r runs on core r, modulo their number)")
	c.Flags().SetInterspersed(false) // what follows PROGRAM is the program's
	return c
}

func (a *app) ranks(e *engine, g *agent.Agent, command []string, n int) launch.Ranks {
	return launch.Ranks{
		Command: command, N: n, Stdout: a.raw.stdout, Stderr: a.raw.stderr, // a program's output is its own
		Environ: func(r int) []string {
			return append(a.withoutRankVariables(), fmt.Sprintf("%s=%s", rank.EnvSocket, g.Socket()),
				fmt.Sprintf("%s=%d", rank.EnvRank, r), fmt.Sprintf("%s=%d", rank.EnvWorldSize, n))
		},
		Lost:    g.Lost,
		Started: func(_, pgid int) { e.reaper.Track(pgid) },
		Exited: func(x launch.Exit) {
			e.reaper.Forget(x.PID)
			g.RankExited(x.Rank, x.String())
		},
	}
}

// withoutRankVariables is the environment without what a rank of another run was given.
func (a *app) withoutRankVariables() []string {
	return slices.DeleteFunc(slices.Clone(a.environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == rank.EnvSocket || name == rank.EnvRank || name == rank.EnvWorldSize
	})
}
