package conformance

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/weir-project/weir/core/backend"
)

// doneContextReturns: no method goes on after its context is done, whether or not it has an answer by then.
func (s *suite) doneContextReturns() error {
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	var left error
	for name, ask := range map[string]func(){
		"Accept":  func() { _, _ = s.b.Accept(ctx, requests[0]) },
		"Plan":    func() { _, _ = s.b.Plan(ctx, requests[0], backend.AllBytes()) },
		"Release": func() { _ = s.b.Release(ctx, requests[0].Group.ID) },
	} {
		if why := s.plugin.found.about(s, name); why != nil {
			left = why // a backend without a connection would hang again
			continue
		}
		returned := make(chan struct{})
		go func() { defer close(returned); ask() }()
		select {
		case <-returned:
		case <-time.After(s.deadline):
			return fmt.Errorf("%s has not returned %s after its context was done", name, s.deadline)
		}
	}
	return left
}

// recovers: calls that nobody waits for any more must not keep the plugin from answering others.
func (s *suite) recovers() error {
	requests := s.requests()
	if len(requests) == 0 {
		return notApplicable("no group and class meet the requirements")
	}
	req := requests[0]
	before, err := s.ask(req)
	if err != nil {
		return err
	}
	noPlan := s.plugin.found.about(s, planCall) != nil // it would be Accept that is blamed
	const callers = 32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*100*time.Microsecond)
			defer cancel()
			if i%4 == 3 && !noPlan {
				_, _ = s.b.Plan(ctx, req, backend.AllBytes())
			} else {
				_, _ = s.b.Accept(ctx, req)
			}
		})
	}
	returned := make(chan struct{})
	go func() { wg.Wait(); close(returned) }()
	select {
	case <-returned:
	case <-time.After(s.deadline):
		return fmt.Errorf("some of %d calls with a deadline of a few milliseconds have not returned after %s", callers, s.deadline)
	}
	after, err := s.ask(req)
	if err != nil {
		return fmt.Errorf("after %d calls that were cancelled or came too late: %w", callers, err)
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s: the verdict was %q, and %q after calls that were cancelled", describe(req), before, after)
	}
	return nil
}
