package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/explain"
)

// notWithOnly are the flags that ask of something else than one backend and request class.
var notWithOnly = []string{"bytes", "tokens", "hidden", "model", "profile", "compare", "enable", "hosts"}

// explainOnly asks one backend about every machine that people name, or the one of --topo, and numbers of ranks.
func (a *app) explainOnly(c *cobra.Command, q *question) (err error) {
	for _, flag := range notWithOnly {
		if c.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--only and --%s do not go together: --only is a table of machines and numbers of ranks", flag)}
		}
	}
	if c.Flags().Changed("devices") && q.topo == "" {
		return usageError{fmt.Errorf("--only and --devices take one machine: give --topo too, or leave --devices out for the first GPUs of every preset")}
	}
	if q.only == "" {
		return usageError{fmt.Errorf("--only: the name of the backend is empty")}
	}
	if _, err := q.parse(); err != nil {
		return usageError{err}
	}
	e, err := a.open(c, asking)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, e.close()) }()
	candidate, err := e.candidate(q.only)
	if err != nil {
		return err
	}
	if m := candidate.Info.Requirements.Memories; q.memory == "" && len(m) > 0 && !slices.Contains(m, collective.CUDA) {
		q.memory = collective.Host.String()
	}
	q.askOfWhatIsServed(c.Flags(), candidate.Info.Requirements)
	return interruptible(c.Context(), func() error { return a.writeMatrix(c, q, candidate, e.wishes()) })
}

func (a *app) writeMatrix(c *cobra.Command, q *question, candidate dispatch.Candidate, wishes agent.Wishes) error {
	x := explain.Matrix{Backend: candidate.Info, Plugin: candidate.Plugin}
	for _, m := range machines(q.topo) {
		column := *q
		column.topo = m.Name
		s, err := column.parse()
		if err != nil {
			return usageError{err}
		}
		if err := s.readTopology(c.Context(), c.InOrStdin()); err != nil {
			return wrong(err)
		}
		s.wishes = wishes
		x.Devices = s.devices
		row, err := fares(c.Context(), candidate, s, m.About)
		if err != nil {
			return err
		}
		x.Rows = append(x.Rows, row)
	}
	if q.format == "json" {
		return explain.Encode(a.stdout, x.JSON())
	}
	return x.Text(a.stdout)
}

// askOfWhatIsServed takes the first type and op that the backend serves where the command line says none and it does not serve the
// usual one: every cell would say DTYPE.
func (q *question) askOfWhatIsServed(f *pflag.FlagSet, r backend.Requirements) {
	if types := r.DataTypes; !f.Changed("dtype") && len(types) > 0 && !lo.SomeBy(types, func(t collective.DataType) bool { return t.String() == q.dataType }) {
		q.dataType = types[0].String()
	}
	if ops := r.Ops; !f.Changed("op") && len(ops) > 0 && !lo.SomeBy(ops, func(o collective.Op) bool { return o.String() == q.op }) {
		q.op = ops[0].String()
	}
}

// machines are those to ask about: one, or every preset.
func machines(topo string) []topology.PresetMachine {
	if topo == "" {
		return topology.Presets()
	}
	return []topology.PresetMachine{{Name: topo}}
}

// candidate is a backend by name.
func (e *engine) candidate(name string) (dispatch.Candidate, error) {
	c, found := e.named(name)
	if !found {
		names := lo.Map(e.candidates(), func(c dispatch.Candidate, _ int) string { return c.Info.Name })
		return c, usageError{fmt.Errorf("--only: no plugin offers the backend %q; there are: %s", name, strings.Join(names, ", "))}
	}
	if c.Backend == nil {
		return c, usageError{fmt.Errorf("--only: %w", c.Fault)}
	}
	return c, nil
}

// fares asks about the first GPUs of a machine, as many as there are ranks, or about those of --devices.
func fares(ctx context.Context, candidate dispatch.Candidate, machine *subject, about string) (explain.Row, error) {
	row := explain.Row{Topology: machine.source, About: about}
	sizes := worldSizes(machine.question.ranks, len(machine.machine.Devices))
	if machine.devices != nil && machine.question.ranks == 0 {
		sizes = []int{len(machine.devices)}
	}
	for _, n := range sizes {
		s, q := *machine, *machine.question
		q.ranks, s.question = n, &q
		if err := s.complete(); err != nil {
			return row, usageError{err}
		}
		s.group = s.wishes.Of(s.group)
		answer := explain.Answer{Decision: dispatch.Resolve(ctx, []dispatch.Candidate{candidate}, s.group, s.class, dispatch.Options{AskAll: true, Hypothetical: true, Apart: true})}
		if ctx.Err() != nil {
			return row, context.Cause(ctx)
		}
		answer.Request.Group, answer.Request.Class, answer.Request.Hypothetical = s.group, s.class, true
		row.Answers = append(row.Answers, explain.New(answer, []dispatch.Candidate{candidate}))
	}
	return row, nil
}

// worldSizes are the numbers of ranks to ask about: the one asked for, or the powers of two up to all GPUs, and all.
func worldSizes(asked, gpus int) []int {
	if asked > 0 {
		return []int{asked}
	}
	var sizes []int
	for n := 2; n < gpus; n *= 2 {
		sizes = append(sizes, n)
	}
	return append(sizes, gpus)
}
