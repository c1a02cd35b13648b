// Package conformance holds a backend to the contract of backend.Backend, in whatever language it is written and wherever it runs.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/schedule"
)

// Plugin is what is tested: backends, and what the rules may do to what offers them.
type Plugin struct {
	Backends []backend.Backend
	Process  Process // nil: they are in the process of the test, or NoProcess says why

	// NoProcess is why rules about the process cannot be looked at though there is one; "" otherwise.
	NoProcess string

	found *findings // nil: each rule is looked at as if it were the only one

	Device   Device // nil: there is no GPU to run their plans on
	NoDevice string // why there is none
}

// Process is the process of a plugin.
type Process interface {
	PID() int
	// Printed is what it has printed on standard output since the handshake, a line each.
	Printed() []string
	// Complaints are the warnings and errors of its log, and of the host's about it, a line each.
	Complaints() []string
	// Health asks gRPC's health service.
	Health(ctx context.Context) error
	// Restart kills the process and returns when another one serves in its place.
	Restart(ctx context.Context) error
	// Backend is a backend as the process that serves now offers it.
	Backend(name string) (backend.Backend, error)
	// Orphan starts one more process, ends its lifeline as the death of an engine does, and returns how long it lived on:
	// an error if it still does when ctx is done.
	Orphan(ctx context.Context) (time.Duration, error)
}

// Device runs plans for GPUs, in processes of ranks.
type Device interface {
	// Worlds are the numbers of ranks that can be tried here.
	Worlds(advertised func(int) bool) []int
	// Try has ranks decide each class with the backend as the only candidate, and run its plan on inputs with known sums. An
	// outcome is nil if that went well. With abort it is tried too whether kernels leave when they are told to; then there is
	// one class.
	Try(ctx context.Context, b backend.Backend, world int, classes []collective.Class, abort bool) ([]error, error)
}

// Outcome is how a rule ended.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "FAIL"
	Skipped Outcome = "skip"
)

// Result is the outcome of one rule for one backend.
type Result struct {
	Rule    string
	Backend string // "" for a rule about the plugin's process
	Outcome Outcome
	Took    time.Duration
	Want    string // what the rule expects
	Got     string // what was seen, or why the rule was skipped
	See     string // where the rule is documented
}

// Options are how Run runs.
type Options struct {
	Only     *regexp.Regexp // rules whose name it matches; nil for all
	Deadline time.Duration  // of one answer, and of one call of a rank; 0 for 20 s

	// Report is called with every result when it is there. It may be nil.
	Report func(Result)
	// Progress is called from another goroutine when a rule has taken longer than two seconds, and then every few seconds:
	// doing says what it is at. It may be nil.
	Progress func(rule, backend, doing string, since time.Duration)
}

const (
	defaultDeadline = 20 * time.Second
	quiet           = 2 * time.Second // how long a rule may take without a word
	again           = 5 * time.Second // until the next one
)

// Run holds all backends of a plugin to all rules. Ranks are goroutines that wait for each other, so it may raise GOMAXPROCS.
func Run(ctx context.Context, p Plugin, o Options) []Result {
	var all []Result
	do := func(r Rule, b backend.Backend) {
		if ctx.Err() != nil || o.Only != nil && !o.Only.MatchString(r.Name) {
			return
		}
		result := Check(ctx, r, p, b, o)
		if o.Report != nil {
			o.Report(result)
		}
		all = append(all, result)
		p.found.revive(ctx, p, cmp.Or(o.Deadline, defaultDeadline))
	}
	p = p.Remembering()
	for _, r := range Rules() {
		if r.Plugin && !r.last {
			do(r, p.Backends[0])
		}
	}
	for i, b := range p.Backends {
		for _, r := range Rules() {
			if r.Plugin || !r.Concerns(b.Info().Kind) {
				continue
			}
			if p.Process != nil { // the process may be another by now
				if now, err := p.Process.Backend(b.Info().Name); err == nil {
					b = now
				}
			}
			do(r, b)
		}
		p.Backends[i] = b
	}
	for _, r := range Rules() {
		if r.Plugin && r.last {
			do(r, p.Backends[0])
		}
	}
	return all
}

// Check holds one backend of a plugin to one rule.
func Check(ctx context.Context, r Rule, p Plugin, b backend.Backend, o Options) Result {
	s := newSuite(ctx, p, b)
	if o.Deadline > 0 {
		s.deadline = o.Deadline
	}
	result := Result{Rule: r.Name, Backend: s.info.Name, Outcome: OK, Want: r.Want, See: r.See()}
	if r.Plugin {
		result.Backend = ""
	}
	s.rule = r.Name
	began := time.Now()
	quit := make(chan struct{})
	if o.Progress != nil {
		go s.tell(quit, began, func(doing string, since time.Duration) { o.Progress(r.Name, result.Backend, doing, since) })
	}
	err := s.hold(r)
	close(quit)
	result.Took = time.Since(began)
	var skip notApplicable
	switch {
	case errors.As(err, &skip):
		result.Outcome, result.Got = Skipped, skip.Error()
	case err != nil:
		result.Outcome, result.Got = Failed, err.Error()+s.whyGone(err)
		if backend.ReasonFor(err).Code == backend.PluginCrashed {
			p.found.ended()
		}
	}
	return result
}

// suite is one backend under test.
type suite struct {
	ctx      context.Context
	rule     string // that is looked at
	plugin   Plugin
	b        backend.Backend
	info     backend.Info
	deadline time.Duration // of one call of a rank, and of one answer
	prover   *schedule.Prover
	heard    int                    // complaints of the process before
	at       atomic.Pointer[string] // what it is at, for a person who waits
}

func newSuite(ctx context.Context, p Plugin, b backend.Backend) *suite {
	s := &suite{ctx: ctx, plugin: p, b: b, info: b.Info(), deadline: defaultDeadline, prover: schedule.NewProver(64)}
	if p.Process != nil {
		s.heard = len(p.Process.Complaints())
	}
	return s
}

func (s *suite) hold(r Rule) error {
	if r.Process && s.plugin.Process == nil {
		return notApplicable("it is about the plugin's process: " + cmp.Or(s.plugin.NoProcess, "run `weir plugins test`"))
	}
	if !r.Concerns(s.info.Kind) && !r.Plugin {
		return notApplicable("it does not concern a " + string(s.info.Kind))
	}
	return r.check(s)
}

// doing notes what the suite is at.
func (s *suite) doing(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.at.Store(&text)
}

func (s *suite) tell(quit <-chan struct{}, began time.Time, say func(string, time.Duration)) {
	for wait := quiet; ; wait = again {
		select {
		case <-quit:
			return
		case <-time.After(wait):
		}
		doing := ""
		if at := s.at.Load(); at != nil {
			doing = *at
		}
		say(doing, time.Since(began))
	}
}

// notApplicable says why a rule does not concern a backend, or cannot be looked at here.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }
