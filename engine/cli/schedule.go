package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/files"
)

func (a *app) schedule() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Look at the schedules of backends",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var ranks int
	var output, format string
	show := &cobra.Command{
		Use:   "show BACKEND",
		Short: "Draw the schedule that a backend makes for a group of ranks, once it is proved to be right",
		Long: `Start the plugins, ask a backend for its schedule for a group of ranks with buffers in host memory, prove the schedule,
and write it as a picture (SVG): a lane for each rank, its steps from the top down, arrows from each signal to those
who wait for it. With --format text, list the steps instead, also of a schedule that is refused. Nothing is run.

A schedule that is not right is refused with an example of how it goes wrong; docs/schedules.md says how to read it.

` + exitCodes,
		Example: "  weir schedule show shm-twoshot --ranks 4 -o twoshot.svg\n  weir schedule show shm-flat --ranks 2 --format text",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if ranks < 1 || ranks > plan.MaxWorld {
				return usageError{fmt.Errorf("--ranks: %d ranks; give 1 to %d", ranks, plan.MaxWorld)}
			}
			if format != "svg" && format != "text" {
				return usageError{fmt.Errorf("--format: unknown format %q, want svg or text", format)}
			}
			e, err := a.open(c, asking)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, e.close()) }()
			s, err := e.scheduleOf(c.Context(), args[0], ranks)
			if err != nil {
				return err
			}
			show := func() error {
				return a.show(s, fmt.Sprintf("%s, %s", args[0], backend.Count(ranks, "rank")), format, output)
			}
			return interruptible(c.Context(), show)
		},
	}
	config.Flags(show.Flags())
	attachFlag(show)
	show.Flags().IntVar(&ranks, "ranks", 4, "`number` of ranks of the group")
	show.Flags().StringVarP(&output, "output", "o", "", "`file` to write to (default: standard output)")
	show.Flags().StringVar(&format, "format", "svg", "`format` of the output: svg or text")
	c.AddCommand(show)
	return c
}

// scheduleOf asks a backend for its plan for ranks of this host.
func (e *engine) scheduleOf(ctx context.Context, name string, ranks int) (*plan.Schedule, error) {
	c, found := e.named(name)
	if !found || c.Backend == nil {
		names := lo.FilterMap(e.candidates(), func(c dispatch.Candidate, _ int) (string, bool) { return c.Info.Name, c.Backend != nil })
		return nil, usageError{fmt.Errorf("no plugin offers the backend %q; there are: %s", name, strings.Join(names, ", "))}
	}
	if c.Info.Kind != plan.ScheduleKind {
		return nil, usageError{fmt.Errorf("the plan of backend %s is a %s, not a schedule", name, c.Info.Kind)}
	}
	class := collective.Class{Memory: collective.Host, DataType: first(c.Info.Requirements.DataTypes, collective.Float32), Op: first(c.Info.Requirements.Ops, collective.Sum), Registered: c.Info.Requirements.Registered}
	group := agent.GroupFacts("schedule", make([]collective.Rank, ranks), e.topology, e.wishes())
	d := dispatch.Resolve(ctx, []dispatch.Candidate{c}, group, class, dispatch.Options{AskAll: true, Apart: true})
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	verdict := d.Answers[0].Verdict
	if verdict.Kind != backend.Accept {
		return nil, fmt.Errorf("backend %s does not serve %s for a group of %d: %s", name, class, ranks, verdict)
	}
	p, err := c.Backend.Plan(ctx, backend.Request{Group: group, Class: class}, verdict.Ranges)
	if err != nil {
		return nil, fmt.Errorf("plan of backend %s: %w", name, err)
	}
	s, ok := p.(*plan.Schedule)
	if !ok {
		return nil, usageError{fmt.Errorf("backend %s promises a schedule but did not make one", name)}
	}
	if err := s.Validate(ranks); err != nil {
		return nil, usageError{fmt.Errorf("backend %s: %w", name, err)}
	}
	return s, nil
}

// first is the preferred value if all or it are allowed, and otherwise one that is.
func first[T comparable](allowed []T, preferred T) T {
	if len(allowed) == 0 || lo.Contains(allowed, preferred) {
		return preferred
	}
	return allowed[0]
}

// show proves a schedule and writes it.
func (a *app) show(s *plan.Schedule, title, format, output string) error {
	proof := schedule.Prove(s)
	var refused *schedule.Refused
	if errors.As(proof, &refused) {
		for _, line := range refused.Details() {
			fmt.Fprintln(a.stderr, line)
		}
	}
	var b bytes.Buffer
	switch {
	case format == "text":
		if err := schedule.List(&b, title, s); err != nil {
			return err
		}
	case proof == nil:
		if err := schedule.Draw(&b, title, s); err != nil {
			return err
		}
	}
	if b.Len() > 0 {
		if err := writeTo(a.stdout, output, b.Bytes()); err != nil {
			return err
		}
	}
	if proof != nil {
		return usageError{proof}
	}
	return nil
}

// writeTo writes to a file or, without one, to w.
func writeTo(w io.Writer, file string, content []byte) error {
	if file == "" {
		_, err := w.Write(content)
		return err
	}
	if err := files.Write(file, content, 0o666); err != nil {
		return usageError{fmt.Errorf("--output: %w", err)}
	}
	return nil
}
