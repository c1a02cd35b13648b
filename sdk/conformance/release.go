package conformance

import (
	"errors"
	"fmt"
	"reflect"
)

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
	before, _, err := s.plan(req) // none if it is declined
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
