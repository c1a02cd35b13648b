package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/profiles"
)

const explainExitCodes = `Exit codes: 0 answered (whoever serves, or nobody); 2 the command line, a file, the configuration or a plugin is wrong;
with --diff 0 if no decision changed, 1 if one did; 130 ended by SIGINT, 143 by SIGTERM.`

func (a *app) explain() *cobra.Command {
	q := &question{}
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say which backend would serve a request, which would not, and why",
		Long: `Ask every backend about a group of ranks and print who would serve which message sizes: each verdict, each reason with
what was observed and what is required, and what would have to be different. Nothing is run.

The group is of this machine, or of one that you describe: paste what nvidia-smi topo -m (or another tool, see weir topo)
prints into --topo -, give its file, or name a preset:
` + presetNames() + `.
Backends are those of the plugins (profile weir), or what SGLang and vLLM would ask of theirs (profiles sglang, vllm).

` + explainExitCodes,
		Example: `  weir explain --ranks 8 --dtype bfloat16 --bytes 14336,1MiB
  nvidia-smi topo -m | weir explain --topo - --devices 0,1,4,5 --capability 9.0 --profile vllm
  weir explain --topo 8xPCIe --p2p verified --model kimi-k2.5 --captured
  weir explain --topo matrix.txt --compare sglang,vllm,weir --tokens 1..64 --hidden 7168
  weir explain --only shm-flat
  weir explain --only oneshot --topo 8xPCIe --devices 0,1,4,5 --p2p verified
  weir explain --diff old.json new.json
  weir explain --trace traces.jsonl`,
		Args: func(c *cobra.Command, args []string) error { return q.checkArgs(c.Flags(), args) },
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case q.diff != "":
				return a.explainDiff(c.Context(), c.InOrStdin(), q, args[0])
			case q.trace != "":
				return a.explainTrace(c.Context(), c.InOrStdin(), q)
			case c.Flags().Changed("only"):
				return a.explainOnly(c, q)
			}
			return a.explainQuestion(c, q)
		},
	}
	config.Flags(c.Flags())
	attachFlag(c)
	q.flags(c.Flags())
	return c
}

// explainQuestion answers for one profile, or for those to compare.
func (a *app) explainQuestion(c *cobra.Command, q *question) (err error) {
	s, err := q.parse()
	if err != nil {
		return usageError{err}
	}
	if err := s.readTopology(c.Context(), c.InOrStdin()); err != nil {
		return wrong(err)
	}
	var e *engine
	if lo.Contains(s.profiles, weirProfile) {
		if e, err = a.open(c, asking); err != nil {
			return err
		}
		defer func() { err = firstError(err, e.close()) }()
		s.wishes = e.wishes()
		if s.live() {
			s.setLive(e.topology)
		}
	} else {
		if c.Flags().Changed(attachName) {
			return usageError{fmt.Errorf("--attach: no plugin is asked for these profiles; add %s", weirProfile)}
		}
		if _, err := a.load(c); err != nil { // a wrong configuration is said even if nothing of it is needed
			return err
		}
		if s.live() {
			s.setLive(a.live())
		}
	}
	if err := interruptible(c.Context(), s.complete); err != nil {
		return wrong(err)
	}
	return interruptible(c.Context(), func() error {
		answers, err := a.ask(c.Context(), e, s)
		if err != nil {
			return err
		}
		return a.printAnswers(q, s, answers)
	})
}

func (a *app) ask(ctx context.Context, e *engine, s *subject) ([]explain.Answer, error) {
	var all []explain.Answer
	for _, name := range s.profiles {
		answer, err := s.ask(ctx, e, name)
		if err != nil {
			return nil, err
		}
		all = append(all, answer)
	}
	return all, nil
}

// wrong is the error of what the user gave, unless a signal came.
func wrong(err error) error {
	if errors.As(err, new(signalled)) {
		return err
	}
	return usageError{err}
}

func (a *app) printAnswers(q *question, s *subject, answers []explain.Answer) error {
	if q.compare != nil {
		c := explain.Comparison(answers)
		if q.format == "json" {
			return explain.Encode(a.stdout, c.JSON())
		}
		return c.Text(a.stdout)
	}
	if q.format == "json" {
		return explain.Encode(a.stdout, answers[0].JSON())
	}
	if s.live() {
		if err := discover.Describe(a.stdout, s.machine); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	return answers[0].Text(a.stdout)
}

// weirProfile is the profile of the plugins.
const weirProfile = "weir"

func profileNames() []string { return append([]string{weirProfile}, profiles.Names()...) }

// decisionsChanged is the outcome of --diff when something did. What changed has been printed.
type decisionsChanged struct{}

func (decisionsChanged) Error() string { return "decisions changed" }

func (a *app) explainDiff(ctx context.Context, stdin io.Reader, q *question, after string) error {
	var both [2]explain.JSON
	for i, name := range []string{q.diff, after} {
		err := withFile(ctx, stdin, name, maxAnswers, func(r io.Reader) (err error) {
			both[i], err = explain.Decode(r)
			return err
		})
		if err != nil {
			return wrong(err)
		}
	}
	d := explain.Diff(both[0], both[1])
	write := d.Text
	if q.format == "json" {
		write = func(w io.Writer) error { return explain.Encode(w, d) }
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	if d.Changed() {
		return decisionsChanged{}
	}
	return nil
}
