package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// release has the backend let a group go.
func (s *suite) release(group string) error {
	_, err := call(s, "Release", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.b.Release(ctx, group) })
	return err
}

// releaseIsHarmless: a group that the backend never saw can be released, a group can be released twice, and what is
// asked afterwards is answered as before.
func (s *suite) releaseIsHarmless() error {
	if err := s.release("a-group-never-seen"); err != nil {
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
		if err := s.release(req.Group.ID); err != nil {
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
	return s.release(req.Group.ID)
}
