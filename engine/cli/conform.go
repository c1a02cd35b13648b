package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// conformFlags are the flags of `weir plugins test`.
type conformFlags struct {
	backends []string
	run      string
	format   string
	tls      string
	settings []string
	env      []string
	deadline time.Duration
	start    time.Duration
	list     bool
	verbose  bool
	attached bool // the plugin was started by the user
}

func (a *app) conform() *cobra.Command {
	var f conformFlags
	c := &cobra.Command{
		Use:   "test {PATH | --attach NAME=ADDRESS}",
		Short: "Hold a built plugin, in any language, to the contract",
		Long: `Start the plugin at PATH and hold it to every rule of ` + conformance.Documentation + `: what it
advertises is honest, its answers are pure, its plans are valid and give exact results, it comes up again after it was
killed, it leaks nothing. Schedules and workers are run with ranks of this process. Kernels and libraries are run where
there is a GPU; elsewhere they are checked as far as that goes without one, and the rest is skipped with its reason.
With --attach it is a plugin that you have started, under a debugger say: rules about its process are skipped.

A line is printed for each rule and backend: ok, FAIL or skip, and how long it took. A failure says what was expected,
what was seen and where that is documented. What the plugin logs is shown with --verbose, and its last words when it does
not come up.

Exit codes: 0 no rule is broken; 1 at least one is; 2 the plugin could not be tested (the command line is wrong, there is
no such file); 130 ended by SIGINT, 143 by SIGTERM.`,
		Example: `  weir plugins test bin/plugins/shm
  weir plugins test ./my-plugin.py --run 'accept|plan'
  weir plugins test bin/plugins/nccl --backend nccl --setting library='"/usr/lib/libnccl.so.2"' --format json`,
		Args: func(c *cobra.Command, args []string) error {
			if f.list {
				return cobra.NoArgs(c, args)
			}
			return onePlugin(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.format != "text" && f.format != "json" {
				return badFormat(f.format)
			}
			if f.list {
				return listRules(a.stdout, f.format)
			}
			spec, err := f.plugin(c, args)
			if err != nil {
				return usageError{err}
			}
			return a.runConform(c.Context(), f, spec)
		},
	}
	c.Flags().StringSliceVar(&f.backends, "backend", nil, "`name` of the backends to test; several with commas (default all)")
	c.Flags().StringVar(&f.run, "run", "", "test only rules whose name matches the regular `expression`")
	c.Flags().StringVar(&f.tls, "tls", "auto", "`on`, or off for a plugin in a language that makes TLS hard (as plugins.NAME.tls); auto: on if it can")
	c.Flags().StringArrayVar(&f.settings, "setting", nil, "`NAME=VALUE` for the plugin, the value in JSON or else text (as plugins.NAME.settings)")
	c.Flags().StringArrayVar(&f.env, "env", nil, "`NAME=VALUE` in the plugin's environment (as plugins.NAME.env)")
	c.Flags().DurationVar(&f.deadline, "deadline", 20*time.Second, "longest `time` of one answer and of one all-reduce")
	c.Flags().DurationVar(&f.start, "start-deadline", 10*time.Second, "longest `time` until the plugin has described itself")
	c.Flags().BoolVar(&f.list, "list", false, "list the rules instead")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show what the plugin logs")
	attachFlag(c)
	formatFlag(c, &f.format)
	return c
}

// runConform is `weir plugins test`.
func (a *app) runConform(ctx context.Context, f conformFlags, spec pluginhost.Spec) (err error) {
	only, err := f.only()
	if err != nil {
		return usageError{err}
	}
	printed := &printedLines{}
	e, err := a.conformEngine(f, printed)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, e.close()) }()
	report := newConformReport(a, f.format, spec)
	opts := pluginhost.Options{
		Dir: e.folder.Path, StartTimeout: f.start, CallTimeout: f.deadline, Logger: e.logger,
		OnStart: e.reaper.Track, OnEnd: e.reaper.Forget,
		Restart: pluginhost.Restart{First: 20 * time.Millisecond, Longest: time.Second, Most: 5},
	}
	e.host, err = startOne(ctx, spec, opts)
	if f.tls == "auto" && errors.Is(err, pluginhost.ErrNoTLS) {
		spec.Insecure = true
		e.host, err = startOne(ctx, spec, opts)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.attached && err != nil && !errors.As(err, new(*pluginv1.DescriptionError)) {
		return usageError{err} // there is nothing to test at the address
	}
	if err != nil {
		report.add(handshakeFailed(err))
		return report.end()
	}
	report.about(e.host.Plugins()[0], spec.Insecure)
	plugin, err := a.underTest(e, f, printed)
	if err != nil {
		return usageError{err}
	}
	conformance.Run(ctx, plugin, conformance.Options{Only: only, Deadline: f.deadline, Report: report.add, Progress: report.progress})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return report.end()
}

// conformEngine is an engine with defaults only, so that the outcome does not depend on whose shell it is run in.
func (a *app) conformEngine(f conformFlags, printed *printedLines) (e *engine, err error) {
	loaded, err := config.Load(config.Source{})
	if err != nil {
		return nil, usageError{err}
	}
	var out slog.Handler = slog.DiscardHandler
	if f.verbose {
		out = slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	if err := roomToStart(a.logger(loaded.Config.Log), loaded.Config, 0); err != nil {
		return nil, err
	}
	e = &engine{config: loaded.Config, logger: slog.New(printed.handler(out)), topology: a.live()}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.folder, err = launch.NewFolder(a.getenv); err != nil {
		return e, err
	}
	e.reaper, err = a.startReaper(e.folder.Path, "", running)
	return e, err
}

// startOne starts the plugin. The error is also that of one that does not serve; there may be a host to close then.
func startOne(ctx context.Context, spec pluginhost.Spec, opts pluginhost.Options) (*pluginhost.Host, error) {
	h, err := pluginhost.Start(ctx, []pluginhost.Spec{spec}, opts)
	if err != nil {
		return nil, err
	}
	c, _ := lo.Find(h.Candidates(), func(c dispatch.Candidate) bool { return c.Fault != nil })
	return h, c.Fault
}

// calledAfter is a name like the file's for the plugin: it stands in messages.
func calledAfter(path string) string {
	base := filepath.Base(path)
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base))))
	return cmp.Or(strings.Trim(plain, "-"), "plugin")
}

// handshakeFailed is the result for a plugin that did not come up, or describes itself as what cannot be.
func handshakeFailed(err error) conformance.Result {
	broken := conformance.Handshake
	if wrong := (*pluginv1.DescriptionError)(nil); errors.As(err, &wrong) {
		broken = conformance.Description
	}
	r, _ := lo.Find(conformance.Rules(), func(r conformance.Rule) bool { return r.Name == broken })
	return conformance.Result{Rule: r.Name, Outcome: conformance.Failed, Want: r.Want, See: r.See(), Got: oneLine(err)}
}

// underTest is the plugin as the suite takes it.
func (a *app) underTest(e *engine, f conformFlags, printed *printedLines) (conformance.Plugin, error) {
	p := conformance.Plugin{Process: &conformProcess{host: e.host, printed: printed}}
	if f.attached {
		p.Process, p.NoProcess = nil, "it is attached, so weir may not end it and does not see what it prints"
	}
	var offered []string
	for _, c := range e.host.Candidates() {
		offered = append(offered, c.Info.Name)
		if len(f.backends) == 0 || lo.Contains(f.backends, c.Info.Name) {
			p.Backends = append(p.Backends, c.Backend)
		}
	}
	if strange, _ := lo.Difference(f.backends, offered); len(strange) > 0 {
		return p, fmt.Errorf("--backend: the plugin offers no %s; it offers %s", strings.Join(strange, ", "), strings.Join(offered, ", "))
	}
	p.Device, p.NoDevice = a.conformDevice(e)
	return p, nil
}

// conformProcess is the plugin's process for the suite.
type conformProcess struct {
	host    *pluginhost.Host
	printed *printedLines
}

func (p *conformProcess) plugin() pluginhost.Status { return p.host.Plugins()[0] }
func (p *conformProcess) PID() int                  { return p.plugin().PID }
func (p *conformProcess) Printed() []string         { return p.printed.all() }
func (p *conformProcess) Complaints() []string      { return p.printed.complained() }

func (p *conformProcess) Health(ctx context.Context) error {
	return p.host.Health(ctx, p.plugin().Name)
}

func (p *conformProcess) Restart(ctx context.Context) error {
	return p.host.Restart(ctx, p.plugin().Name)
}

func (p *conformProcess) Orphan(ctx context.Context) (time.Duration, error) {
	return p.host.Orphan(ctx, p.plugin().Name)
}

func (p *conformProcess) Backend(name string) (backend.Backend, error) {
	c, found := lo.Find(p.host.Candidates(), func(c dispatch.Candidate) bool { return c.Info.Name == name })
	if !found || c.Backend == nil {
		return nil, errors.Join(c.Fault, fmt.Errorf("the plugin does not offer %s any more", name))
	}
	return c.Backend, nil
}
