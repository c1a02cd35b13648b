package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/telemetry"
)

// question is what `weir explain` is asked.
type question struct {
	ranks    int
	memory   string
	dataType string
	op       string
	captured bool
	sizes    []string
	format   string
}

func (a *app) explain() *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "explain",
		Short: "Ask every backend whether it would serve a request on this host, and why not",
		Long: `Start the plugins, ask every backend about a group of ranks on this host, and print the cascade: each verdict, the
byte counts it would serve, and each reason with what was observed and what is required. Nothing is run.

` + exitCodes,
		Example: "  weir explain --ranks 8 --dtype bfloat16 --bytes 14336,1MiB\n  weir explain --memory cuda --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			class, sizes, err := q.parse()
			if err != nil {
				return usageError{err}
			}
			e, err := a.open(c, asking)
			if err != nil {
				return err
			}
			defer func() { err = firstError(err, e.close()) }()
			return a.answer(c.Context(), e, q, class, sizes)
		},
	}
	config.Flags(c.Flags())
	f := c.Flags()
	f.IntVar(&q.ranks, "ranks", 8, "`number` of ranks of the group")
	f.StringVar(&q.memory, "memory", "host", "memory `kind` of the buffers: host or cuda")
	f.StringVar(&q.dataType, "dtype", "bfloat16", "`type` of the elements")
	f.StringVar(&q.op, "op", "sum", "reduce `op`: sum, prod, min, max or avg")
	f.BoolVar(&q.captured, "captured", false, "the calls are recorded in a GPU graph")
	f.StringSliceVar(&q.sizes, "bytes", nil, "message `sizes` to look at, such as 14336,1MiB (default: every range)")
	formatFlag(c, &q.format)
	return c
}

func (q question) parse() (class collective.Class, sizes []int64, err error) {
	for _, p := range []struct {
		flag, value string
		into        interface{ UnmarshalText([]byte) error }
	}{{"memory", q.memory, &class.Memory}, {"dtype", q.dataType, &class.DataType}, {"op", q.op, &class.Op}} {
		if err := p.into.UnmarshalText([]byte(p.value)); err != nil {
			return class, nil, fmt.Errorf("--%s: %w", p.flag, err)
		}
	}
	class.Captured = q.captured
	if err := class.Validate(); err != nil {
		return class, nil, err
	}
	if q.ranks < 1 {
		return class, nil, fmt.Errorf("--ranks: %d ranks; give 1 or more", q.ranks)
	}
	if q.format != "text" && q.format != "json" {
		return class, nil, badFormat(q.format)
	}
	for _, s := range q.sizes {
		var size config.Size
		if err := size.Set(s); err != nil {
			return class, nil, fmt.Errorf("--bytes: %w", err)
		}
		if size < 1 {
			return class, nil, fmt.Errorf("--bytes: a message has at least 1 byte, not %d", size)
		}
		sizes = append(sizes, int64(size))
	}
	return class, sizes, nil
}

// answer asks every backend and prints what they say.
func (a *app) answer(ctx context.Context, e *engine, q question, class collective.Class, sizes []int64) error {
	ranks := make([]collective.Rank, q.ranks)
	if class.Memory == collective.CUDA {
		for i := range ranks {
			if i < len(e.topology.Devices) {
				ranks[i].Device = &e.topology.Devices[i]
			}
		}
	}
	group := agent.GroupFacts("explain", ranks, e.topology, e.config.Group.Deterministic)
	ctx, span := telemetry.NewTracer(e.telemetry.TracerProvider).Start(trace.ContextWithRemoteSpanContext(ctx, e.parent), group, class)
	d := span.Resolve(ctx, e.host.Candidates(), dispatch.Options{Policy: e.policy, AskAll: true})
	span.End(d, nil)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if q.format == "json" {
		return encodeJSON(a.stdout, explanation(group, d, sizes))
	}
	if err := discover.Describe(a.stdout, e.topology); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\n%s, %d ranks, worst link %s:\n", class, q.ranks, group.Worst())
	writeCascade(a.stdout, d)
	writeSizes(a.stdout, d, sizes)
	return nil
}

// writeSizes says for each message size who serves it, and why the accepting others do not.
func writeSizes(w io.Writer, d dispatch.Decision, sizes []int64) {
	for _, n := range sizes {
		i := d.Table.Lookup(n)
		if i == dispatch.None {
			fmt.Fprintf(w, "\n%s: no backend serves it\n", backend.Size(n))
		} else {
			fmt.Fprintf(w, "\n%s: %s\n", backend.Size(n), d.Answers[i].Backend)
		}
		for j, a := range d.Answers {
			if reason, outside := outsideRanges(a.Verdict, n); outside && (i == dispatch.None || j < i) {
				fmt.Fprintf(w, "  not %s: %s\n", a.Backend, reason)
			}
		}
	}
}

// outsideRanges is the reason why an accepting backend does not serve a byte count.
func outsideRanges(v backend.Verdict, bytes int64) (backend.Reason, bool) {
	if v.Kind != backend.Accept || lo.SomeBy(v.Ranges, func(r backend.Range) bool { return r.Contains(bytes) }) {
		return backend.Reason{}, false
	}
	reason := backend.Because(backend.Alignment, backend.Size(bytes), rangeList(v.Ranges))
	switch {
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes < r.Min }):
		reason.Code = backend.TooSmall
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes > r.Max }):
		reason.Code = backend.TooLarge
	case lo.EveryBy(v.Ranges, func(r backend.Range) bool { return bytes < r.Min || bytes > r.Max }):
		reason.Code, reason.Text = backend.Other, "between the sizes that it serves"
	}
	return reason, true
}
