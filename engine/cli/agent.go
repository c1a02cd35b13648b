package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/rank"
)

// wishes are what the configuration asks of every group.
func (e *engine) wishes() agent.Wishes {
	g := e.config.Group
	return agent.Wishes{Deterministic: g.Deterministic, ShareDevices: g.ShareDevices}
}

// listen starts the agent of an engine. When ctx is done its ranks are being ended.
func (a *app) listen(ctx context.Context, e *engine, ranks int, quiet bool) (*agent.Agent, error) {
	cfg := e.config
	meter, err := telemetry.NewMeter(e.telemetry.MeterProvider)
	if err != nil {
		return nil, err
	}
	opts := agent.Options{
		Socket: agentSocket(e.folder.Path, cfg.Agent.Socket), WorldSize: ranks, Candidates: e.candidates, Policy: e.policy, Topology: e.topology,
		Deterministic: cfg.Group.Deterministic, ShareDevices: cfg.Group.ShareDevices, UnabortableKernels: cfg.Group.UnabortableKernels, MaxShared: int64(cfg.Shared.MaxBytes),
		JoinDeadline: cfg.Group.JoinDeadline, CallDeadline: cfg.Group.Deadline,
		PrepareDeadline: cfg.Deadlines.Prepare, SelfTestDeadline: cfg.Deadlines.SelfTest,
		SlowAfter: cfg.Group.SlowAfter, WorkerDeadline: cfg.Deadlines.Worker, Kill: e.host.Kill, Await: e.host.Await,
		Tracer: telemetry.NewTracer(e.telemetry.TracerProvider), Parent: e.parent, Logger: e.logger,
	}
	if e.telemetry.Enabled() {
		opts.Meter = meter
	}
	if cfg.P2P.Verify != config.VerifyOff {
		opts.Prove = a.prove(e, quiet)
	}
	opts.Trial = (&trials{app: a, engine: e, known: map[string]error{}}).try
	opts.Ending = func() bool { return ctx.Err() != nil }
	opts.Failed = func(s agent.GroupStatus) { a.keepDump(e.logger, s) }
	if !quiet {
		opts.Decided = func(r agent.Resolved) { writeResolved(a.stderr, r) }
	}
	g, err := agent.Listen(opts)
	if err == nil {
		e.host.WhenServing(g.Serves)
	}
	return g, err
}

func (a *app) agent() *cobra.Command {
	var ranks int
	var quiet, once bool
	c := &cobra.Command{
		Use:   "agent --ranks N",
		Short: "Serve ranks that something else starts",
		Long: `Serve ranks that another launcher starts on this host. Give each of them the variables that weir prints on
standard output, ` + rank.EnvSocket + ` and ` + rank.EnvWorldSize + `, and its number in ` + rank.EnvRank + ` (0 to N-1; with the drop-in for
NCCL the agent chooses). When all ranks of a job have ended, the next job may join.
The agent runs until it gets SIGINT or SIGTERM; with --once until the first job has ended, or nobody has joined within
group.join_deadline.

` + exitCodes,
		Example: "  weir agent --ranks 2 --quiet",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := collective.CheckWorldSize(ranks); err != nil {
				return usageError{fmt.Errorf("--ranks: %w, such as --ranks 8", err)}
			}
			e, err := a.open(c, serving)
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
			fmt.Fprintf(a.stdout, "%s=%s\n%s=%d\n", rank.EnvSocket, g.Socket(), rank.EnvWorldSize, ranks)
			if !quiet {
				_ = discover.Describe(a.stderr, e.topology) // a closed standard error is no reason not to serve
			}
			if once {
				return serveOnce(c.Context(), g, e.config.Group.JoinDeadline)
			}
			<-c.Context().Done()
			return context.Cause(c.Context())
		},
	}
	config.Flags(c.Flags())
	attachFlag(c)
	c.Flags().IntVar(&ranks, "ranks", 0, "`number` of ranks of a job")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "do not print the topology and the decisions")
	c.Flags().BoolVar(&once, "once", false, "serve one job and end with it")
	return c
}

// onceEvery is how often an agent that serves one job looks whether it has ended.
const onceEvery = 50 * time.Millisecond

// serveOnce returns when a job has ended, or when no rank has come for a while.
func serveOnce(ctx context.Context, g *agent.Agent, patience time.Duration) error {
	tick := time.NewTicker(onceEvery)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			switch joined, over := g.Progress(); {
			case over:
				return nil
			case joined > 0: // the agent's own deadline holds for the rest
				end = now.Add(patience)
			case now.After(end):
				return fmt.Errorf("no rank has joined within %s (group.join_deadline)", patience)
			}
		}
	}
}

// firstError keeps the error that came first.
func firstError(err, later error) error {
	if err != nil {
		return err
	}
	return later
}
