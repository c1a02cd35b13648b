package backendtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// asRequirement are the codes of what requirements can say: declining for such a reason after they were found met
// means that they are not honest.
var asRequirement = []backend.Code{
	backend.WorldSize, backend.Arch, backend.Platform, backend.MemoryKind, backend.LinkNotFull, backend.P2PUnreported,
	backend.NoMulticast, backend.ScopeCode, backend.MultiHost, backend.DType, backend.OpCode, backend.TooSmall,
	backend.TooLarge, backend.Alignment, backend.InPlace, backend.CaptureState, backend.InFlight, backend.Determinism,
}

// advertisedIsAccepted: what meets the requirements is accepted, or declined for a reason that data cannot say. A
// schedule needs nothing else, so it must accept.
func (s *suite) advertisedIsAccepted() error {
	for _, req := range s.requests() {
		v, err := s.b.Accept(s.ctx, req)
		if err != nil {
			return fmt.Errorf("%s: Accept: %w", describe(req), err)
		}
		if err := v.Validate(); err != nil {
			return fmt.Errorf("%s: invalid verdict: %w", describe(req), err)
		}
		if v.Kind != backend.Accept {
			if s.info.Kind == plan.ScheduleKind {
				return fmt.Errorf("%s: meets the requirements, but the verdict is: %s", describe(req), v)
			}
			if r, found := lo.Find(v.Reasons, func(r backend.Reason) bool { return slices.Contains(asRequirement, r.Code) }); found {
				return fmt.Errorf("%s: meets the requirements, but is declined for what they should say: %s", describe(req), r)
			}
			continue
		}
		if allowed := s.info.Requirements.Check(req).Ranges; len(common(v.Ranges, allowed)) == 0 {
			return fmt.Errorf("%s: accepts only byte counts (%s) outside its own windows (%s)", describe(req), v, backend.Accepted(allowed...))
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
		v, err := s.b.Accept(s.ctx, req)
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
				v, err := s.b.Accept(s.ctx, requests[i])
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

// hypotheticalIsAnswered: a question about another machine gets a valid answer, from the facts given. A schedule has
// no other facts, so its answer is the same.
func (s *suite) hypotheticalIsAnswered() error {
	for _, req := range s.requests() {
		real, err := s.b.Accept(s.ctx, req)
		if err != nil {
			return fmt.Errorf("%s: Accept: %w", describe(req), err)
		}
		req.Hypothetical = true
		req.Group = clone(req.Group)
		for i := range req.Group.Ranks {
			req.Group.Ranks[i].PID, req.Group.Ranks[i].Host = 0, "elsewhere"
		}
		v, err := s.b.Accept(s.ctx, req)
		if err == nil {
			err = v.Validate()
		}
		if err != nil {
			return fmt.Errorf("%s, hypothetical: Accept: %w", describe(req), err)
		}
		if s.info.Kind == plan.ScheduleKind && !reflect.DeepEqual(v, real) {
			return fmt.Errorf("%s: the verdict is %q, but %q for a machine that is not this one", describe(req), real, v)
		}
	}
	return nil
}

// doneContextReturns: no method goes on after its context is done, whether or not it has an answer by then.
func (s *suite) doneContextReturns() error {
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for name, ask := range map[string]func(){
		"Accept":  func() { _, _ = s.b.Accept(ctx, requests[0]) },
		"Plan":    func() { _, _ = s.b.Plan(ctx, requests[0], backend.AllBytes()) },
		"Release": func() { _ = s.b.Release(ctx, requests[0].Group.ID) },
	} {
		returned := make(chan struct{})
		go func() { defer close(returned); ask() }()
		select {
		case <-returned:
		case <-time.After(s.deadline):
			return fmt.Errorf("%s has not returned %s after its context was done", name, s.deadline)
		}
	}
	return nil
}
