package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

// nothingLeaks goes through the life of many groups.
func (s *suite) nothingLeaks() error {
	req, found := s.plannable()
	if !found {
		return notApplicable("no group and class meet the requirements")
	}
	pid := s.plugin.Process.PID()
	if err := s.lives(req, 0); err != nil {
		return err
	}
	before, err := lookAt(pid)
	if err != nil {
		return notApplicable("the process cannot be looked at: " + err.Error())
	}
	grew := 0
	last := before
	const segments = 6
	for i := range segments {
		s.doing("group %d", (i+1)*groupsInSegment)
		if err := s.lives(req, i+1); err != nil {
			return err
		}
		now, err := s.settled(pid, before)
		if err != nil {
			return fmt.Errorf("the process has ended: %w", err)
		}
		if now.memory > last.memory+leakedBytes {
			grew++
		}
		last = now
		if i == segments/2-1 && grew < segments/2 {
			break // it is level, and need not be watched further
		}
	}
	switch {
	case len(last.children) > len(before.children):
		return fmt.Errorf("it had started %d processes, and after many groups %d, the last of them %d", len(before.children), len(last.children), slices.Max(last.children))
	case last.descriptors > before.descriptors+leakedDescriptors:
		return fmt.Errorf("%d descriptors were open, and after many groups %d: %s", before.descriptors, last.descriptors, last.newFiles(before))
	case last.shared > before.shared+leakedMappings:
		return fmt.Errorf("%d mappings of workers' memory were there, and after many groups %d", before.shared, last.shared)
	case grew == segments:
		return fmt.Errorf("its memory grew from %d to %d MiB, with every %d groups by more than %d KiB", before.memory>>20, last.memory>>20, groupsInSegment, leakedBytes>>10)
	}
	return nil
}

const (
	groupsInSegment = 100
	segmentTime     = 3 * time.Second // for slow plugins: fewer groups then
	attachesOf      = 10              // of the groups in a segment, for a worker

	leakedBytes       = 1 << 20
	leakedDescriptors = 5
	leakedMappings    = 2
)

// plannable is a request that has a plan, or else one that is declined.
func (s *suite) plannable() (backend.Request, bool) {
	requests := s.requests()
	for _, req := range requests {
		p, _, err := s.plan(req)
		if err == nil && p != nil || err != nil && backend.ReasonFor(err).Code == backend.Timeout { // which the caller meets again
			return req, true
		}
	}
	return lo.FirstOrEmpty(requests), len(requests) > 0
}

// lives goes through a segment of groups.
func (s *suite) lives(req backend.Request, segment int) error {
	began := time.Now()
	for i := range groupsInSegment {
		req.Group.ID = fmt.Sprintf("backendtest-leak-%d-%d", segment, i)
		p, _, err := s.plan(req)
		if err != nil {
			return err
		}
		if w, ok := p.(*plan.Worker); ok && i < attachesOf {
			g, err := s.attach(req.Group.ID, req.Group.WorldSize(), w)
			if err != nil {
				return err
			}
			g.end()
		}
		if err := s.release(req.Group.ID); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		if time.Since(began) > segmentTime {
			break
		}
	}
	return nil
}

// settled is how the process is once it has had time to give up what it needs no more.
func (s *suite) settled(pid int, before state) (now state, err error) {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now, err = lookAt(pid)
		over := now.descriptors > before.descriptors+leakedDescriptors || len(now.children) > len(before.children) || now.shared > before.shared+leakedMappings
		if err != nil || !over || time.Now().After(end) {
			return now, err
		}
	}
}
