package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// eachPlan asks for plans of requests that are accepted: of every class for small groups, of some for large ones, and of one
// for each other world size that is advertised.
func (s *suite) eachPlan(do func(backend.Request, plan.Plan, []backend.Range) error) error {
	tried := false
	sampled := s.worlds()
	for _, world := range s.advertisedWorlds() {
		for i, req := range s.requestsOf(world) {
			if world > 5 && i%7 != 0 || i > 0 && !slices.Contains(sampled, world) {
				continue // large plans take a while, and depend on the class seldom
			}
			s.doing("%s", describe(req))
			p, ranges, err := s.plan(req)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			tried = true
			if err := do(req, p, ranges); err != nil {
				return fmt.Errorf("%s: %w", describe(req), err)
			}
		}
	}
	if !tried {
		return s.acceptedNothing()
	}
	return nil
}

// acceptedNothing says why there is no plan to look at.
func (s *suite) acceptedNothing() error {
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	v, err := s.ask(requests[0])
	if err != nil {
		return err
	}
	for i := range v.Reasons {
		if v.Reasons[i].Observed+v.Reasons[i].Required != "" {
			v.Reasons[i].Text = "" // further words, which may be many
		}
	}
	return notApplicable(fmt.Sprintf("it accepts nothing here; %s: %s", describe(requests[0]), v))
}

// planIsValid: every accepted request has a plan of the advertised kind that the engine would take.
func (s *suite) planIsValid() error {
	return s.eachPlan(func(backend.Request, plan.Plan, []backend.Range) error { return nil })
}

// planIsProved: the engine refuses a schedule that it cannot prove.
func (s *suite) planIsProved() error {
	largest := s.largestWorld()
	sampled := append(s.worlds(), largest)
	return s.eachPlan(func(req backend.Request, p plan.Plan, _ []backend.Range) error {
		if !slices.Contains(sampled, req.Group.WorldSize()) {
			return nil // a proof takes longer than a plan
		}
		err := s.proved(p)
		if err != nil {
			s.plugin.found.note(s, theRun, "a schedule was refused")
		}
		return err
	})
}

// planIsRepeatable: ranks may get theirs at different times, and an engine that was started again asks anew.
func (s *suite) planIsRepeatable() error {
	return s.eachPlan(func(req backend.Request, p plan.Plan, _ []backend.Range) error {
		again, _, err := s.plan(req)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(p, again) {
			return errors.New("two calls of Plan gave different plans")
		}
		return nil
	})
}

func (s *suite) proved(p plan.Plan) error {
	err := s.prover.Prove(p.(*plan.Schedule))
	var refused *schedule.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%w%s", err, strings.Join(append([]string{""}, refused.Details()...), "\n"))
	}
	return err
}

// largestWorld is the largest advertised world size that a plan can have.
func (s *suite) largestWorld() int {
	largest, _, _ := lo.FindLastIndexOf(lo.RangeFrom(1, plan.MaxWorld), s.serves)
	return largest
}

// plan asks for the plan of a request, with the ranges that it is for. There is none, and no error, if the backend
// declines the request.
func (s *suite) plan(req backend.Request) (plan.Plan, []backend.Range, error) {
	if err := s.plugin.found.about(s, planCall); err != nil {
		return nil, nil, err
	}
	ranges, err := s.accepted(req)
	if err != nil || len(ranges) == 0 {
		return nil, nil, err
	}
	p, err := call(s, planCall, func(ctx context.Context) (plan.Plan, error) { return s.b.Plan(ctx, req, ranges) })
	switch {
	case errors.As(err, new(notApplicable)):
		return nil, nil, err
	case err != nil:
		return nil, nil, fmt.Errorf("%s: Plan: %w", describe(req), err)
	case p == nil || reflect.ValueOf(p).IsNil():
		return nil, nil, fmt.Errorf("%s: Plan gave neither a plan nor an error", describe(req))
	case p.Kind() != s.info.Kind:
		return nil, nil, fmt.Errorf("%s: the plan is a %s, advertised is a %s", describe(req), p.Kind(), s.info.Kind)
	}
	if err := p.Validate(req.Group.WorldSize()); err != nil {
		return nil, nil, fmt.Errorf("%s: invalid plan: %w", describe(req), err)
	}
	return p, ranges, nil
}
