package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/explain"
	"github.com/weir-project/weir/engine/profiles"
	"github.com/weir-project/weir/engine/telemetry"
)

// ask asks one profile. Nothing is asked of this machine where the facts are not all its own.
func (s *subject) ask(ctx context.Context, e *engine, profile string) (explain.Answer, error) {
	req := backend.Request{Group: s.group, Class: s.class, Hypothetical: s.foreign || profile != weirProfile}
	x := explain.Answer{
		Profile: profile, Request: req, Sizes: s.sizes(), Warnings: s.warnings,
		Topology: explain.Topology{
			Source: s.source, Format: s.format, Complete: s.whole,
			Devices: lo.Map(s.positions, func(p, _ int) int { return s.machine.Devices[p].Index }),
		},
		Findings: diagnose.Findings(diagnose.Subject{Machine: s.machine, Positions: s.positions, Group: s.group, Class: s.class, Divided: s.divided()}),
	}
	if s.model != nil {
		x.Model = &explain.Model{Name: s.model.Name, Hidden: s.model.Hidden, AllReduces: s.model.AllReduces}
	}
	if profile == weirProfile {
		return s.askPlugins(ctx, e, x)
	}
	return s.askProfile(ctx, x)
}

func (s *subject) askPlugins(ctx context.Context, e *engine, x explain.Answer) (explain.Answer, error) {
	x.Request.Group = s.wishes.Of(x.Request.Group)
	candidates := e.candidates()
	opts := dispatch.Options{Policy: e.policy, AskAll: true, Hypothetical: x.Request.Hypothetical}
	ctx, span := telemetry.NewTracer(e.telemetry.TracerProvider).Start(trace.ContextWithRemoteSpanContext(ctx, e.parent), x.Request.Group, s.class)
	x.Decision = span.Resolve(ctx, candidates, opts)
	span.End(x.Decision, nil)
	if ctx.Err() != nil {
		return x, context.Cause(ctx)
	}
	return explain.New(x, candidates), nil
}

func (s *subject) askProfile(ctx context.Context, x explain.Answer) (explain.Answer, error) {
	p, err := profiles.Load(x.Profile)
	if err != nil {
		return x, err
	}
	candidates, err := p.Candidates(x.Request, profiles.Setup{Model: s.model, Hidden: s.hidden, Enabled: s.enabled(p)})
	if err != nil {
		return x, usageError{fmt.Errorf("--enable: %w", err)}
	}
	x.Assumes = fmt.Sprintf("%s at commit %.12s: %s", p.Engine, p.Commit, strings.TrimSpace(p.Assumes))
	x.Decision = dispatch.Resolve(ctx, candidates, x.Request.Group, s.class, dispatch.Options{AskAll: true, Hypothetical: true})
	x.Remarks = lo.Map(x.Decision.Answers, func(a dispatch.Answer, _ int) []string { return p.Remarks(a.Backend, a.Verdict, s.group) })
	return explain.New(x, candidates), nil
}

// enabled are the backends of --enable that a profile has; when profiles are compared one need not have those of another.
func (s *subject) enabled(p *profiles.Profile) []string {
	if s.question.compare == nil {
		return s.question.enable
	}
	return lo.Filter(s.question.enable, func(name string, _ int) bool {
		return lo.SomeBy(p.Backends, func(b *profiles.Backend) bool { return b.Name == name })
	})
}

// sizes are the message sizes asked about, ascending.
func (s *subject) sizes() []explain.Size {
	all := lo.Map(s.bytes, func(n int64, _ int) explain.Size { return explain.Size{Bytes: n} })
	for _, n := range s.tokens {
		all = append(all, explain.Size{Bytes: int64(n) * int64(s.hidden) * int64(s.class.DataType.Size()), Tokens: n})
	}
	slices.SortStableFunc(all, func(a, b explain.Size) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
	return all
}
