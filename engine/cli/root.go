// Package cli is weir's command line.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/files"
	"github.com/weir-project/weir/engine/licenses"
	"github.com/weir-project/weir/engine/terminal"
)

// Version is of this build of Weir.
const Version = "0.1.0-dev"

// The exit codes of weir.
const (
	exitOK      = 0
	exitFailed  = 1   // the run failed: a rank failed or never joined, or no backend serves
	exitUsage   = 2   // the command line, the configuration or a plugin must be mended first
	exitSignals = 128 // plus the number of the signal that ended it
)

const exitCodes = `Exit codes: 0 all went well; 1 the run failed (a rank failed or never joined, no backend serves);
2 the command line, the configuration or a plugin is wrong; 130 ended by SIGINT, 143 by SIGTERM.`

// usageError is an error that the user mends before anything runs.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// app is what the commands share.
type app struct {
	environ        []string
	stdout, stderr io.Writer // plain: what plugins, files and variables say gives no orders there
	raw            struct{ stdout, stderr io.Writer }
	exe            string
	ending         *ending
}

func newApp(environ []string, stdout, stderr io.Writer) *app {
	a := &app{environ: environ, stdout: terminal.New(stdout), stderr: terminal.New(stderr), ending: &ending{}}
	a.raw.stdout, a.raw.stderr = stdout, stderr
	return a
}

func (a *app) getenv(name string) string {
	for _, kv := range a.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Main runs the command line and returns the exit code.
func Main(args, environ []string, stdout, stderr io.Writer) int {
	if err := roomAtAll(args); err != nil {
		fmt.Fprintf(stderr, "weir: %s\n", err)
		return exitFailed
	}
	exe, err := os.Executable()
	if err != nil {
		exe = "" // then there is no plugin folder beside it
	}
	ctx, stop := signalContext()
	defer stop()
	a := newApp(environ, stdout, stderr)
	a.exe = exe
	root := a.root()
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if err = unknownCommand(root, args); err == nil {
		err = a.ending.execute(ctx, root)
	}
	var sig signalled
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &sig):
		fmt.Fprintf(a.stderr, "weir: %s\n", err)
		return exitSignals + int(sig.signal)
	}
	fmt.Fprintf(a.stderr, "weir: %s\n", oneLine(err))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Run programs whose all-reduces go through plugins, and see why each backend was chosen or not",
		Long: `Weir starts all-reduce backends as plugins, asks each in turn whether it serves your group of ranks over
these links, and runs the one that all ranks agreed on. Every answer keeps its reason.

Begin with:
  weir explain                     what each backend says about this machine
  weir topo                        the GPUs of this machine, or of a pasted text
  weir doctor                      prove that its GPUs reach each other's memory
  weir run -n 2 -- ./program       run a program as two ranks
  weir bench --ranks 2             measure all-reduce on this machine

` + exitCodes,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown flag: --"+attachName) {
			return usageError{noAttach(c)}
		}
		return badFlag(c, err)
	})
	root.Version = Version
	root.SetVersionTemplate("weir {{.Version}}\n")
	root.AddCommand(a.run(), a.agent(), a.explain(), a.topo(), a.bench(), a.doctor(), a.plugins(), a.status(), a.dump(), a.schedule(), a.config(), a.version(),
		a.reap(), a.benchRank(), a.trialRank(), a.conformRank(), a.p2pWorker())
	markUsage(root)
	a.completeValues(root)
	plainBooleans(root)
	return root
}

// markUsage makes errors in the number of arguments usage errors.
func markUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usageError{fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

var boolean = regexp.MustCompile(`\[=true\|false\]( *)`)

// plainBooleans has help show --flag rather than --flag[=true|false].
func plainBooleans(root *cobra.Command) {
	const value = "[=true|false]"
	cobra.AddTemplateFunc("flags", func(f *pflag.FlagSet) string { // columns stay where they are
		return boolean.ReplaceAllString(f.FlagUsages(), "$1"+strings.Repeat(" ", len(value)))
	})
	t := strings.NewReplacer(".LocalFlags.FlagUsages", "flags .LocalFlags", ".InheritedFlags.FlagUsages", "flags .InheritedFlags").Replace(root.UsageTemplate())
	root.SetUsageTemplate(t)
}

// load reads the configuration for a command on which config.Flags was called.
func (a *app) load(c *cobra.Command) (l *config.Loaded, err error) {
	err = files.Wait(c.Context(), func() (err error) {
		l, err = config.Load(config.Source{Environ: a.environ, Flags: c.Flags(), Exe: a.exe})
		return err
	})
	if err != nil {
		return nil, wrong(err)
	}
	return l, nil
}

func (a *app) version() *cobra.Command {
	var texts bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, or the licences of what Weir is built from",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if texts {
				return licenses.Print(a.stdout)
			}
			_, err := fmt.Fprintf(a.stdout, "weir %s\n", Version)
			return err
		},
	}
	c.Flags().BoolVar(&texts, "licenses", false, "print the licences of all that is linked into Weir's programs, plugins and libraries instead")
	return c
}

func (a *app) config() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration and where each value came from",
		Long: `Print every configuration value in force, and whether it is a default or comes from the file, a variable or a
flag. Values win in this order: flags, environment (WEIR_…), file, defaults.`,
		Example: "  weir config -c weir.yaml\n  WEIR_GROUP__DEADLINE=5s weir config --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := a.load(c)
			if err != nil {
				return err
			}
			switch format {
			case "text":
				return l.Print(a.stdout)
			case "json":
				return l.PrintJSON(a.stdout)
			}
			return badFormat(format)
		},
	}
	config.Flags(c.Flags())
	formatFlag(c, &format)
	return c
}

func formatFlag(c *cobra.Command, format *string) {
	c.Flags().StringVar(format, "format", "text", "`format` of the output: text or json")
}

func badFormat(format string) error {
	return usageError{fmt.Errorf("--format: unknown format %q, want text or json", format)}
}
