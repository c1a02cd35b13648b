package conformance

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

func (s *suite) healthy() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
	defer cancel()
	return s.plugin.Process.Health(ctx)
}

// nothingPrinted looks at all that was printed during the rules before.
func (s *suite) nothingPrinted() error {
	if lines := s.plugin.Process.Printed(); len(lines) > 0 {
		return fmt.Errorf("%d lines were printed, the first: %q (what is for people goes to standard error)", len(lines), lines[0])
	}
	return nil
}

// restarts kills the process, as the system may, or the engine when a call hangs.
func (s *suite) restarts() error {
	for _, b := range s.plugin.Backends {
		ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
		err := newSuite(ctx, s.plugin, b).survivesKill()
		cancel()
		if err != nil {
			return fmt.Errorf("backend %s: %w", b.Info().Name, err)
		}
	}
	return nil
}

func (s *suite) survivesKill() error {
	requests := s.requests()
	if len(requests) == 0 {
		return nil
	}
	req := requests[0]
	before, err := s.ask(req)
	if err != nil {
		return err
	}
	planned, _, err := s.plan(req)
	if err != nil {
		return err
	}
	pid := s.plugin.Process.PID()
	if err := s.fresh(); err != nil {
		return fmt.Errorf("after process %d was killed: %w", pid, err)
	}
	if now := s.b.Info(); !reflect.DeepEqual(s.info, now) {
		return fmt.Errorf("after it was killed it advertises something else: %+v, before %+v", now, s.info)
	}
	after, err := s.ask(req)
	if err != nil {
		return fmt.Errorf("after it was killed: %w", err)
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: the verdict was %q, and %q after the process was killed", describe(req), before, after)
	}
	again, _, err := s.plan(req)
	if err != nil {
		return fmt.Errorf("after it was killed: %w", err)
	}
	if !reflect.DeepEqual(planned, again) {
		return fmt.Errorf("%s: the plan is another after the process was killed", describe(req))
	}
	return nil
}

// fresh has the backend served by a new process.
func (s *suite) fresh() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
	defer cancel()
	if err := s.plugin.Process.Restart(ctx); err != nil {
		return err
	}
	b, err := s.plugin.Process.Backend(s.info.Name)
	if err == nil {
		s.b = b
	}
	return err
}

// orphanPatience is how long a plugin may outlive its engine.
const orphanPatience = 5 * time.Second

func (s *suite) orphanEnds() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
	defer cancel()
	lived, err := s.plugin.Process.Orphan(ctx)
	if err != nil {
		return err
	}
	if lived > orphanPatience {
		return fmt.Errorf("it lived on for %s, want at most %s", lived.Round(time.Millisecond), orphanPatience)
	}
	return nil
}

// foreign are names of devices and libraries that a plugin looks for to know what this machine can do.
var foreign = []string{
	"/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/infiniband", "libcuda", "libcudart", "libnccl", "librccl", "libnvidia", "libnvml",
	"libamdhip", "libhsa", "libmscclpp", "libucp", "libmpi", "libnvshmem", "libibverbs", "libgdrapi", "libgloo",
}

// hypotheticalProbesNothing asks a process that has been asked nothing before.
func (s *suite) hypotheticalProbesNothing() error {
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	if err := s.fresh(); err != nil {
		return err
	}
	before, err := lookAt(s.plugin.Process.PID())
	if err != nil {
		return notApplicable("the process cannot be looked at: " + err.Error())
	}
	for i, req := range requests {
		if i > 20 {
			break
		}
		if _, err := s.ask(elsewhere(req)); err != nil {
			return err
		}
	}
	after, err := lookAt(s.plugin.Process.PID())
	if err != nil {
		return fmt.Errorf("the process has ended: %w", err)
	}
	for file := range after.files {
		if before.files[file] {
			continue
		}
		for _, name := range foreign {
			if strings.HasPrefix(name, "/") && strings.HasPrefix(file, name) || strings.HasPrefix(file[strings.LastIndexByte(file, '/')+1:], name) {
				return fmt.Errorf("asked about another machine it opened or mapped %s", file)
			}
		}
	}
	if len(after.children) > len(before.children) {
		return fmt.Errorf("asked about another machine it started the processes %v", after.children)
	}
	return nil
}

// nothingLeaks goes through the life of many groups.
func (s *suite) nothingLeaks() error {
	req, found := s.plannable()
	if !found {
		return s.acceptedNothing()
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
	case last.descriptors > before.descriptors+leakedDescriptors:
		return fmt.Errorf("%d descriptors were open, and after many groups %d: %s", before.descriptors, last.descriptors, last.newFiles(before))
	case len(last.children) > len(before.children):
		return fmt.Errorf("it had %d processes, and after many groups %d: %v", len(before.children), len(last.children), last.children)
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

// plannable is a request that has a plan.
func (s *suite) plannable() (backend.Request, bool) {
	for _, req := range s.requests() {
		if p, _, err := s.plan(req); err == nil && p != nil {
			return req, true
		}
	}
	return backend.Request{}, false
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
		if err := s.b.Release(s.ctx, req.Group.ID); err != nil {
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
