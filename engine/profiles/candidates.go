package profiles

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
)

// Setup is what an engine would know beside the group and the request class.
type Setup struct {
	Model   *Model   // nil if not known
	Hidden  int      // elements of one token; 0 if not known
	Enabled []string // backends that are switched on although they are off by default
}

func (s Setup) hidden() int {
	if s.Hidden == 0 && s.Model != nil {
		return s.Model.Hidden
	}
	return s.Hidden
}

// Candidates are the profile's backends as a cascade for one question. Their Accept looks at nothing: the
// requirements say everything.
func (p *Profile) Candidates(req backend.Request, s Setup) ([]dispatch.Candidate, error) {
	if unknown, _ := lo.Difference(s.Enabled, lo.Map(p.Backends, func(b *Backend, _ int) string { return b.Name })); len(unknown) > 0 {
		return nil, fmt.Errorf("profile %s has no backend %q; it has %s", p.Name, unknown[0],
			strings.Join(lo.Map(p.Backends, func(b *Backend, _ int) string { return b.Name }), ", "))
	}
	var all []dispatch.Candidate
	for i, b := range p.Backends {
		q, err := b.requirements(req, p, s)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %s: %w", p.Name, b.Name, err)
		}
		all = append(all, dispatch.Candidate{
			Plugin:  p.Name,
			Info:    backend.Info{Name: b.Name, Description: b.Title, Priority: -i, Requirements: q},
			Backend: static{},
			Gates:   b.gates(s),
		})
	}
	return all, nil
}

// requirements are what the backend asks of this request.
func (b *Backend) requirements(req backend.Request, p *Profile, s Setup) (backend.Requirements, error) {
	windows := b.Requires.Windows
	for _, name := range slices.Sorted(maps.Keys(b.WindowsBeside)) {
		other, _ := lo.Find(p.Backends, func(x *Backend) bool { return x.Name == name })
		if live, err := other.live(req, s); err != nil {
			return backend.Requirements{}, err
		} else if live {
			windows = b.WindowsBeside[name]
		}
	}
	return b.Requires.requirements(windows, int64(s.hidden())*int64(req.Class.DataType.Size()))
}

// live reports whether the backend is set up for the group, whatever it does with single calls.
func (b *Backend) live(req backend.Request, s Setup) (bool, error) {
	q, err := b.Requires.requirements(nil, 0)
	if err != nil {
		return false, err
	}
	q.DataTypes, q.Modes = nil, nil
	return len(b.gates(s)) == 0 && q.Check(req).Kind == backend.Accept, nil
}

// gates are the switch that is off, and limits in tokens of unknown size.
func (b *Backend) gates(s Setup) []backend.Reason {
	on := slices.Contains(s.Enabled, b.Name)
	if !on && b.Switch != "" {
		switch off := backend.Because(backend.DisabledByUser, "off by default", b.Switch); {
		case len(b.Models) == 0:
			return []backend.Reason{off}
		case s.Model == nil || s.Model.Architecture == "":
			return []backend.Reason{backend.Because(backend.ProbeUnavailable, "model unknown",
				fmt.Sprintf("%s, or a model of its list (name one with --model)", b.Switch))}
		case !slices.Contains(b.Models, s.Model.Architecture):
			off.Observed = fmt.Sprintf("off for %s", s.Model.Architecture)
			off.Required = fmt.Sprintf("%s, or a model of its list", b.Switch)
			return []backend.Reason{off}
		}
	}
	if b.Requires.inTokens() && s.hidden() == 0 {
		return []backend.Reason{backend.Because(backend.ProbeUnavailable, "bytes of a token unknown", "--hidden or --model")}
	}
	return nil
}

func (b *Backend) validate() error {
	if b.Name == "" || b.Title == "" {
		return fmt.Errorf("without a name or a title")
	}
	if _, err := b.Requires.requirements(b.Requires.Windows, 2); err != nil {
		return err
	}
	for _, windows := range b.WindowsBeside {
		if _, err := b.Requires.requirements(windows, 2); err != nil {
			return err
		}
	}
	for _, r := range b.Remarks {
		if err := r.validate(); err != nil {
			return err
		}
	}
	return nil
}

// static is a backend of another engine: it has no rule beside its requirements, and Weir cannot run it.
type static struct{}

// Accept accepts everything that the requirements let through.
func (static) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// Info is not used: the candidate has it.
func (static) Info() backend.Info { return backend.Info{} }

// Plan refuses.
func (static) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return nil, fmt.Errorf("a profile only says what another engine would do")
}

// Release does nothing.
func (static) Release(context.Context, string) error { return nil }
