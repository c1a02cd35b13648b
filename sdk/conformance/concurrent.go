package conformance

import (
	"fmt"
	"sync"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// groupsAreIndependent has several groups plan, run and be released at the same time, twice each under names of their own.
func (s *suite) groupsAreIndependent() error {
	if s.info.Kind == plan.KernelKind || s.info.Kind == plan.LibraryKind {
		return s.plansAreIndependent()
	}
	return s.concurrently(func(req backend.Request) error {
		p, ranges, err := s.plan(req)
		if err != nil || p == nil {
			return err
		}
		if err := s.exact(short(p), req, ranges); err != nil {
			return err
		}
		return s.release(req.Group.ID)
	})
}

// plansAreIndependent is what can be seen of groups whose plans are not run here.
func (s *suite) plansAreIndependent() error {
	return s.concurrently(func(req backend.Request) error {
		if _, _, err := s.plan(req); err != nil {
			return err
		}
		return s.release(req.Group.ID)
	})
}

// concurrently calls do for several groups at once.
func (s *suite) concurrently(do func(backend.Request) error) error {
	const groups, rounds = 4, 2
	var some []backend.Request
	for _, world := range s.worlds() {
		if of := s.requestsOf(world); world <= 5 && len(of) > 0 {
			some = append(some, of[len(of)/2])
		}
	}
	if len(some) == 0 {
		if some = s.requests(); len(some) == 0 {
			return notApplicable("no group and class meet the requirements")
		}
	}
	errs := make([]error, groups)
	var wg sync.WaitGroup
	for i := range groups {
		wg.Go(func() {
			for round := range rounds {
				req := some[i%len(some)]
				req.Group = clone(req.Group)
				req.Group.ID = fmt.Sprintf("backendtest-beside-%d-%d", i, round)
				if err := do(req); err != nil {
					errs[i] = fmt.Errorf("group %s beside %d others: %w", req.Group.ID, groups-1, err)
					return
				}
			}
		})
	}
	wg.Wait()
	err, _ := lo.Find(errs, func(err error) bool { return err != nil })
	return err
}
