package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/core/backend"
)

// findings are what rules have found to be of no use for others: a hang is paid for once, a crash is told once, and what is
// refused is not run. A nil one remembers nothing.
type findings struct {
	mu   sync.Mutex
	of   map[[2]string]finding // by backend and thing: why it is not asked for any more
	dead bool                  // the process has ended since it was last looked at
}

type finding struct{ that, rule string }

// Remembering has the rules that Check looks at from now on know what those before have found to be of no use.
func (p Plugin) Remembering() Plugin {
	p.found = &findings{of: map[[2]string]finding{}}
	return p
}

// the things of a backend that may be of no use.
const (
	planCall   = "Plan"
	acceptCall = "Accept"
	theRun     = "a run"
)

// note has later rules not ask for a thing: that says what is wrong with it.
func (f *findings) note(s *suite, thing, that string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if thing == acceptCall && s.rule != "accept/honest" {
		return // asked about what is odd, or elsewhere: other questions may be answered
	}
	if key := [2]string{s.info.Name, thing}; f.of[key] == (finding{}) {
		f.of[key] = finding{that, s.rule}
	}
}

// about is why a thing is not asked for after an earlier rule; nil if it may be.
func (f *findings) about(s *suite, thing string) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if of := f.of[[2]string{s.info.Name, thing}]; of != (finding{}) && of.rule != s.rule {
		return notApplicable(fmt.Sprintf("not run: %s, see %s", of.that, of.rule))
	}
	return nil
}

// revive starts a process again that a rule has found to end, so that the next rule is about what it says.
func (f *findings) revive(ctx context.Context, p Plugin, patience time.Duration) {
	f.mu.Lock()
	dead := f.dead
	f.dead = false
	f.mu.Unlock()
	if !dead || p.Process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = p.Process.Restart(ctx) // the next rule says so if it does not come up
}

// call makes one call of the backend by the deadline, also of one that does not look at its context. What hangs or ends the process is noted.
func call[T any](s *suite, method string, do func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	if err := s.plugin.found.about(s, method); err != nil {
		return *new(T), err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		v, err := do(ctx)
		answered <- answer{v, err}
	}()
	var a answer
	select {
	case a = <-answered:
	case <-time.After(s.deadline + lastWords):
		a.err = fmt.Errorf("it has not returned %s after it was asked: %w", s.deadline+lastWords, context.DeadlineExceeded)
	case <-s.ctx.Done():
		a.err = context.Cause(s.ctx)
	}
	if a.err != nil && s.ctx.Err() == nil {
		switch backend.ReasonFor(a.err).Code {
		case backend.Timeout:
			s.plugin.found.note(s, method, method+" hangs")
			a.err = fmt.Errorf("no answer within %s: %w", s.deadline, a.err)
		case backend.PluginCrashed:
			s.plugin.found.note(s, method, method+" ends the plugin's process")
		}
	}
	return a.v, a.err
}

// ended notes that the process has ended in a rule.
func (f *findings) ended() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.dead = true
	f.mu.Unlock()
}
