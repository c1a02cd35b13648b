package backendtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// planIsValid: every accepted request has a plan of the advertised kind that the engine would take, the same each time. A
// schedule is proved.
func (s *suite) planIsValid() error {
	tried := false
	for _, world := range append(s.worlds(), s.largestWorld()) {
		for i, req := range s.requestsOf(world) {
			if world > 5 && i%7 != 0 {
				continue // large plans take a while, and depend on the class seldom
			}
			p, _, err := s.plan(req)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			tried = true
			if err := s.proved(req, p); err != nil {
				return err
			}
			again, _, err := s.plan(req)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(p, again) {
				return fmt.Errorf("%s: two calls of Plan gave different plans", describe(req))
			}
		}
	}
	if !tried {
		return notApplicable("the backend accepted nothing here")
	}
	return nil
}

// proved: the engine refuses a schedule that it cannot prove.
func (s *suite) proved(req backend.Request, p plan.Plan) error {
	program, ok := p.(*plan.Schedule)
	if !ok {
		return nil
	}
	err := s.prover.Prove(program)
	var refused *schedule.Refused
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %w\n%s", describe(req), err, strings.Join(refused.Details(), "\n"))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", describe(req), err)
	}
	return nil
}

// largestWorld is the largest advertised world size that a plan can have.
func (s *suite) largestWorld() int {
	largest, _, _ := lo.FindLastIndexOf(lo.RangeFrom(1, plan.MaxWorld), s.serves)
	return largest
}

// plan asks for the plan of a request, with the ranges that it is for. There is none, and no error, if the backend
// declines the request.
func (s *suite) plan(req backend.Request) (plan.Plan, []backend.Range, error) {
	ranges, err := s.accepted(req)
	if err != nil || len(ranges) == 0 {
		return nil, nil, err
	}
	p, err := s.b.Plan(s.ctx, req, ranges)
	switch {
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

// releaseIsHarmless: a group that the backend never saw can be released, a group can be released twice, and what is
// asked afterwards is answered as before.
func (s *suite) releaseIsHarmless() error {
	if err := s.b.Release(s.ctx, "a-group-never-seen"); err != nil {
		return fmt.Errorf("release of a group that the backend never saw: %w", err)
	}
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	req := requests[len(requests)-1]
	before, _, err := s.plan(req)
	if err != nil {
		return err
	}
	for range 2 {
		if err := s.b.Release(s.ctx, req.Group.ID); err != nil {
			return fmt.Errorf("release of a group: %w", err)
		}
	}
	after, _, err := s.plan(req)
	if err != nil {
		return fmt.Errorf("after the group was released: %w", err)
	}
	if !reflect.DeepEqual(before, after) {
		return errors.New("the plan differs after the group was released")
	}
	return s.b.Release(s.ctx, req.Group.ID)
}
