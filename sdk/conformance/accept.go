package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// asRequirement are the codes of what requirements can say: declining for such a reason after they were found met
// means that they are not honest.
var asRequirement = []backend.Code{
	backend.WorldSize, backend.Arch, backend.Platform, backend.MemoryKind, backend.LinkNotFull, backend.P2PUnreported,
	backend.NoMulticast, backend.ScopeCode, backend.MultiHost, backend.DType, backend.OpCode, backend.TooSmall,
	backend.TooLarge, backend.Alignment, backend.InPlace, backend.CaptureState, backend.InFlight, backend.Determinism,
	backend.NUMACode,
}

// advertisedIsAccepted: what meets the requirements is accepted, or declined for a reason that data cannot say.
func (s *suite) advertisedIsAccepted() error {
	accepted, declined := 0, backend.Verdict{}
	requests := s.everyWorld()
	for _, req := range requests {
		s.doing("%s", describe(req))
		v, err := s.ask(req)
		if err != nil {
			return err
		}
		if v.Kind != backend.Accept {
			if r, found := lo.Find(v.Reasons, func(r backend.Reason) bool { return slices.Contains(asRequirement, r.Code) }); found {
				return fmt.Errorf("%s: meets the requirements, but is declined for what they should say: %s", describe(req), r)
			}
			declined = v
			continue
		}
		accepted++
		if allowed := s.info.Requirements.Check(req).Ranges; len(common(v.Ranges, allowed)) == 0 {
			return fmt.Errorf("%s: accepts only byte counts (%s) outside its own windows (%s)", describe(req), v, backend.Accepted(allowed...))
		}
	}
	if accepted == 0 && len(requests) > 0 && s.info.Kind != plan.LibraryKind && s.info.Kind != plan.KernelKind { // which need what may not be here
		return fmt.Errorf("none of %d questions that meet the requirements was accepted; the last answer: %s", len(requests), declined)
	}
	return nil
}

// outsideIsAnswered: an engine of another version may ask what this one would not. The code of a decline is one that the
// requirements give, if it is one that they can give.
func (s *suite) outsideIsAnswered() error {
	requests := s.requests()
	for _, v := range s.violations() {
		base, ok := v.base(requests)
		if !ok {
			continue
		}
		got, err := s.ask(base)
		if err != nil {
			return fmt.Errorf("%s is not met: %w", v.what, err)
		}
		if got.Kind == backend.Accept {
			continue // the requirements decline it before it is asked
		}
		unmet := s.info.Requirements.Check(base).Reasons
		for _, r := range got.Reasons {
			right := lo.SomeBy(unmet, func(u backend.Reason) bool { return u.Code == r.Code })
			if slices.Contains(asRequirement, r.Code) && !right {
				return fmt.Errorf("%s is not met (%s), and the backend declines with another code: %s", v.what, backend.Declined(unmet...), r)
			}
		}
	}
	return nil
}

// ask is Accept with an answer that makes sense.
func (s *suite) ask(req backend.Request) (backend.Verdict, error) {
	v, err := s.verdict(req)
	if errors.As(err, new(notApplicable)) {
		return v, err
	}
	if err != nil {
		return v, fmt.Errorf("%s: Accept: %w", describe(req), err)
	}
	if err := v.Validate(); err != nil {
		return v, fmt.Errorf("%s: invalid verdict: %w", describe(req), err)
	}
	return v, nil
}

// verdict is what the backend answers, whatever it is worth.
func (s *suite) verdict(req backend.Request) (backend.Verdict, error) {
	return call(s, acceptCall, func(ctx context.Context) (backend.Verdict, error) { return s.b.Accept(ctx, req) })
}

// unknownIsRefused: the name of the backend is in every call for a reason.
func (s *suite) unknownIsRefused() error {
	remote, ok := s.b.(interface {
		As(info backend.Info) backend.Backend
	})
	requests := s.requests()
	switch {
	case !ok:
		return notApplicable("the backend is called without a connection")
	case len(requests) == 0:
		return notApplicable("no group and class meet the requirements")
	}
	stranger := s.info
	stranger.Name = "no-such-backend"
	v, err := remote.As(stranger).Accept(s.ctx, requests[0])
	if err == nil {
		return fmt.Errorf("call of Accept for the backend %s was answered: %s", stranger.Name, v)
	}
	if p, err := remote.As(stranger).Plan(s.ctx, requests[0], backend.AllBytes()); err == nil {
		return fmt.Errorf("call of Plan for the backend %s was answered with a %s", stranger.Name, p.Kind())
	}
	_, err = s.ask(requests[0])
	return err
}

// nonsenseIsSurvived: an engine of a later version may know types that the plugin does not. What is answered does not matter.
func (s *suite) nonsenseIsSurvived() error {
	requests := s.requests()
	switch _, remote := s.b.(interface {
		As(info backend.Info) backend.Backend
	}); {
	case !remote:
		return notApplicable("the backend is called without a connection")
	case len(requests) == 0:
		return notApplicable("no group and class meet the requirements")
	}
	for what, spoil := range map[string]func(*backend.Request){
		"an unknown data type": func(r *backend.Request) { r.Class.DataType = collective.NumDataTypes },
		"an unknown op":        func(r *backend.Request) { r.Class.Op = collective.NumOps },
		"no ranks":             func(r *backend.Request) { r.Group.Ranks, r.Group.Links = nil, nil },
		"no links":             func(r *backend.Request) { r.Group.Links = nil },
	} {
		req := requests[0]
		spoil(&req)
		ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
		_, errAccept := s.b.Accept(ctx, req)
		_, errPlan := s.b.Plan(ctx, req, nil)
		late := ctx.Err() != nil
		cancel()
		var f *backend.Fault
		switch {
		case late:
			return fmt.Errorf("a question with %s was not answered within %s", what, s.deadline)
		case errors.As(errAccept, &f) && f.Code == backend.PluginCrashed, errors.As(errPlan, &f) && f.Code == backend.PluginCrashed:
			return fmt.Errorf("a question with %s: %w", what, f)
		}
		if _, err := s.ask(requests[0]); err != nil {
			return fmt.Errorf("after a question with %s: %w", what, err)
		}
	}
	return nil
}

// acceptIsPure: the same question gets the same answer, also while others are asked, and is not changed.
func (s *suite) acceptIsPure() error {
	const askers = 4
	requests := s.requests()
	first := make([]backend.Verdict, len(requests))
	for i, req := range requests {
		before := clone(req.Group)
		v, err := s.verdict(req)
		if err != nil {
			return fmt.Errorf("%s: Accept: %w", describe(req), err)
		}
		if !reflect.DeepEqual(before, req.Group) {
			return fmt.Errorf("%s: Accept changed the group's facts", describe(req))
		}
		first[i] = v
	}
	errs := make([]error, askers)
	var wg sync.WaitGroup
	for a := range askers {
		wg.Go(func() {
			for i := range requests {
				i := (i + a*len(requests)/askers) % len(requests)
				v, err := s.verdict(requests[i])
				if err == nil && !reflect.DeepEqual(v, first[i]) {
					err = fmt.Errorf("asked again it answered %q, before %q", v, first[i])
				}
				if err != nil {
					errs[a] = fmt.Errorf("%s: Accept: %w", describe(requests[i]), err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
