package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/contrib/propagators/envcar"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/builtin"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/rank"
)

// engine is what stands behind a command that needs plugins: they, the topology, telemetry, and the run's folder.
type engine struct {
	config    config.Config
	logger    *slog.Logger
	telemetry *telemetry.Telemetry
	topology  topology.Graph
	host      *pluginhost.Host
	policy    dispatch.Policy
	parent    trace.SpanContext // of every trace; invalid if there is none

	folder *launch.Folder
	reaper *launch.Reaper

	ranksOf string // socket of the ranks that it starts; "" if it starts none
}

// role is what a command does with the engine.
type role int

const (
	asking  role = iota // questions to plugins
	serving             // an agent for ranks that something else starts
	running             // an agent for ranks that it starts
)

// open starts everything that the configuration asks for. Close it.
func (a *app) open(c *cobra.Command, role role) (e *engine, err error) {
	ctx := c.Context()
	loaded, err := a.load(c)
	if err != nil {
		return nil, err
	}
	attached, err := attachments(c)
	if err != nil {
		return nil, usageError{err}
	}
	cfg := loaded.Config
	if len(attached) > 0 {
		cfg = patient(cfg)
	}
	logger := a.logger(cfg.Log)
	if err := roomToStart(logger, cfg, ranksToStart(c, role)); err != nil {
		return nil, err
	}
	e = &engine{config: cfg, logger: logger, topology: a.live(), policy: policy(cfg.Cascade)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.folder, err = launch.NewFolder(a.getenv); err != nil {
		return e, err
	}
	if role == running {
		e.ranksOf = agentSocket(e.folder.Path, cfg.Agent.Socket)
	}
	if e.reaper, err = a.startReaper(e.folder.Path, cfg.Agent.Socket, role); err != nil {
		return e, err
	}
	settings := telemetry.Settings{
		Traces: cfg.Telemetry.Traces, Metrics: cfg.Telemetry.Metrics, Endpoint: cfg.Telemetry.Endpoint,
		ServiceName: cfg.Telemetry.ServiceName, ServiceVersion: Version,
	}
	if role != asking { // a question is not a run, and leaves its file alone
		settings.File = cfg.Telemetry.File
	}
	if e.telemetry, err = telemetry.Setup(ctx, settings); err != nil {
		return e, usageError{fmt.Errorf("telemetry: %w", err)}
	}
	// What started weir may be part of a trace: TRACEPARENT.
	ctx = e.telemetry.Propagator.Extract(ctx, &envcar.Carrier{})
	e.parent = trace.SpanContextFromContext(ctx)
	specs, err := pluginSpecs(cfg, settings.Variables(), e.logger)
	if err != nil {
		return e, usageError{err}
	}
	specs = attachTo(specs, attached, cfg)
	opts := pluginhost.Options{
		Dir: e.folder.Path, StartTimeout: cfg.Deadlines.Start, CallTimeout: cfg.Deadlines.Call, Logger: e.logger,
		OnStart: e.reaper.Track, OnEnd: e.reaper.Forget, Restart: pluginhost.Restart(cfg.Restart),
	}
	if e.telemetry.Enabled() {
		opts.TracerProvider, opts.Propagator = e.telemetry.TracerProvider, e.telemetry.Propagator
	}
	e.host, err = pluginhost.Start(ctx, specs, opts)
	if err != nil {
		if ctx.Err() != nil {
			return e, context.Cause(ctx)
		}
		return e, usageError{err}
	}
	if err := checkNames(loaded, e.candidates()); err != nil {
		return e, usageError{err}
	}
	return e, nil
}

// candidates are the backends of the plugins as they are now, and the engine's own.
func (e *engine) candidates() []dispatch.Candidate {
	return append(e.host.Candidates(), builtin.Candidate())
}

// named is a backend as it is when it is asked for by its name: not in reserve. found is false if there is none.
func (e *engine) named(name string) (c dispatch.Candidate, found bool) {
	c, found = lo.Find(e.candidates(), func(c dispatch.Candidate) bool { return c.Info.Name == name })
	c.Reserve = false
	return c, found
}

// closePatience bounds how long the last spans and metrics may take to leave.
const closePatience = 5 * time.Second

func (e *engine) close() error {
	var errs []error
	if e.host != nil {
		e.host.Close()
	}
	if e.telemetry != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		if err := e.telemetry.Shutdown(ctx); err != nil {
			e.logger.Warn("the last spans or metrics could not be sent", "error", err) // no reason to fail a run
		}
	}
	if e.folder != nil {
		launch.End(startedBy(e.folder.Path, e.ranksOf))
		errs = append(errs, e.folder.Remove())
	}
	if e.reaper != nil {
		e.reaper.Close()
	}
	return errors.Join(errs...)
}

func (a *app) logger(cfg config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // the configuration has been validated
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, opts))
	}
	return slog.New(slog.NewTextHandler(a.stderr, opts))
}

func policy(c config.Cascade) dispatch.Policy {
	p := dispatch.Policy{Order: c.Order, Disabled: c.Disabled, Fallback: map[collective.Memory]string{}}
	for _, m := range collective.Memories() {
		p.Fallback[m] = c.FallbackFor(m)
	}
	return p
}

// pluginSpecs are the plugins to start: those of the plugin folder and those configured by path.
//
// env is added to the environment of each; what is configured for one wins. Whoever names another path for a plugin of the
// folder is told, for its backends are gone.
func pluginSpecs(cfg config.Config, env map[string]string, log *slog.Logger) ([]pluginhost.Spec, error) {
	var specs []pluginhost.Spec
	if cfg.PluginDir != "" {
		found, err := pluginhost.Discover(cfg.PluginDir)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			p, configured := cfg.Plugins[s.Name]
			switch {
			case !configured:
				specs = append(specs, s)
			case !p.Disabled && !sameFile(p.Path, s.Path):
				log.Warn("a plugin of plugin_dir is replaced by another file", "plugin", s.Name, "replaced", s.Path, "path", p.Path)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Plugins)) {
		p := cfg.Plugins[name]
		if _, err := os.Lstat(p.Path); p.Disabled && errors.Is(err, fs.ErrNotExist) {
			known := lo.Map(specs, func(s pluginhost.Spec, _ int) string { return s.Name })
			return nil, fmt.Errorf("plugins.%s: there is no plugin at %s%s", name, p.Path, orAll(known, name))
		}
		if !p.Disabled {
			specs = append(specs, pluginhost.Spec{
				Name: name, Path: p.Path, SHA256: p.SHA256, Insecure: !p.TLS, Env: p.Env, Settings: p.Settings,
			})
		}
	}
	for i, s := range specs {
		specs[i].Env = lo.Assign(env, s.Env)
	}
	slices.SortFunc(specs, func(a, b pluginhost.Spec) int { return strings.Compare(a.Name, b.Name) })
	return specs, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// startReaper comes before anything else is started, in a run's folder.
func (a *app) startReaper(folder, socket string, role role) (*launch.Reaper, error) {
	a.ending.needs(lo.Ternary(role == asking, askedPatience, servedPatience))
	return launch.StartReaper(a.exe, reapArgs(folder, socket, role))
}

// reapCommand is the hidden command that StartReaper runs.
const reapCommand = "reap"

func (a *app) reap() *cobra.Command {
	var ranksOf string
	c := &cobra.Command{
		Use:    reapCommand + " FOLDER [FILE…]",
		Short:  "Clean up after an engine that was killed (started by weir itself)",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ignoreSignals()
			launch.Reap(c.InOrStdin(), startedBy(args[0], ranksOf), args[0], args[1:]...)
			return nil
		},
	}
	c.Flags().StringVar(&ranksOf, "ranks-of", "", "end the ranks of the agent at this `socket` too")
	return c
}

// startedBy are the variables by which the processes are known that an engine's plugins, and the ranks that it starts, have started.
func startedBy(folder, ranksOf string) []string {
	variables := []string{"PLUGIN_UNIX_SOCKET_DIR=" + folder + "/"}
	if ranksOf != "" {
		variables = append(variables, rank.EnvSocket+"="+ranksOf)
	}
	return variables
}

// reapArgs are the arguments of reap for an engine: what to remove, and whose ranks to end. Ranks that something else
// started outlive an agent.
func reapArgs(folder, socket string, role role) []string {
	args := []string{reapCommand, folder}
	if socket != "" && role != asking {
		args = append(args, socket)
	}
	if role == running {
		args = append(args, "--ranks-of", agentSocket(folder, socket))
	}
	return args
}

// agentSocket is where an agent listens: at the configured path, or else in the run's folder.
func agentSocket(folder, configured string) string {
	return cmp.Or(configured, filepath.Join(folder, "agent.sock"))
}
