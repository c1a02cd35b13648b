package conformance

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
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
		b, err := s.plugin.Process.Backend(b.Info().Name) // rules before may have had the process started again
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
		err = newSuite(ctx, s.plugin, b).survivesKill()
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
