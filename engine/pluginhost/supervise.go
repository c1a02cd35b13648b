package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// Restart says what is done about plugins that end by themselves. Fields that are zero have the default.
type Restart struct {
	First   time.Duration // wait before the first restart; doubled for each further one. 200 ms
	Longest time.Duration // longest such wait. 30 s
	Stable  time.Duration // a plugin that has served for so long is taken to be well again. 1 min
	Most    int           // restarts without its having been well before it is given up. 5
}

func (r Restart) complete() Restart {
	return Restart{
		First: cmp.Or(r.First, 200*time.Millisecond), Longest: cmp.Or(r.Longest, 30*time.Second),
		Stable: cmp.Or(r.Stable, time.Minute), Most: cmp.Or(r.Most, 5),
	}
}

// delay is the wait before restart n, from 1.
func (r Restart) delay(n int) time.Duration {
	d := r.First
	for range n - 1 {
		if d >= r.Longest {
			break
		}
		d *= 2
	}
	return min(d, r.Longest)
}

// slot is a plugin's place in a host: the process that serves now, or the last that did.
type slot struct {
	opts     Options
	starter  starter
	host     *Host
	replaced chan struct{} // has room for one: the process was, by a reload

	mu         sync.Mutex
	binary     binary // what now runs
	now        *running
	others     []*running // beside it: one that may replace it, and those that it has replaced
	reloading  bool
	supervised bool
	late       bool      // it did not come up in time and is tried again
	restarts   int       // since the plugin was last well
	due        time.Time // of the next start
	quarantine error     // why it is not started any more, or nil
	closed     bool
	changed    chan struct{} // closed, and made anew, when one of the above changes
}

// starter is what supervision needs to begin a process; tests of its rules put another in the place of files.
type starter interface {
	check(Spec) (binary, error)
	// launch starts a plugin and asks what it offers. An error is for the user; what befell the plugin is its fault.
	launch(context.Context, binary, Options) (*running, error)
}

// files starts the plugin's file as a process.
type files struct{}

func (files) check(spec Spec) (binary, error) { return check(spec) }

func (files) launch(ctx context.Context, b binary, opts Options) (*running, error) {
	return launch(ctx, b, opts)
}

func newSlot(h *Host, b binary, opts Options) *slot {
	return &slot{host: h, binary: b, opts: opts, starter: files{}, replaced: make(chan struct{}, 1), changed: make(chan struct{})}
}

// change changes the state and tells who waits for that.
func (s *slot) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a process serves; false if none will before ctx ends.
func (s *slot) await(ctx context.Context) bool {
	for {
		s.mu.Lock()
		now, over, changed := s.now, s.closed || s.quarantine != nil || s.now.fault != nil && !s.late, s.changed
		end, bounded := ctx.Deadline()
		over = over || bounded && s.due.After(end) || now.attached != nil && now.life.Err() != nil
		s.mu.Unlock()
		switch {
		case over:
			return false
		case now.life.Err() == nil && now.fault == nil:
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// current is the process that serves now or served last, and why there will be none any more.
func (s *slot) current() (r *running, restarts int, quarantine error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.restarts, s.quarantine
}

// candidates are the plugin's backends. Those of a process that has ended fail with how it did until another serves.
func (s *slot) candidates() []dispatch.Candidate {
	r, _, quarantine := s.current()
	return r.candidates(quarantine)
}

func (r *running) candidates(quarantine error) []dispatch.Candidate {
	if r.fault != nil {
		return []dispatch.Candidate{{Plugin: r.name, Info: backend.Info{Name: r.name}, Fault: cmp.Or(quarantine, r.fault)}}
	}
	return lo.Map(r.offer.Backends, func(info backend.Info, _ int) dispatch.Candidate {
		if quarantine != nil {
			return dispatch.Candidate{Plugin: r.name, Info: info, Fault: quarantine}
		}
		remote := pluginv1.NewRemote(r.service, info, pluginv1.RemoteOptions{Timeout: r.opts.CallTimeout, Life: r.life})
		return dispatch.Candidate{Plugin: r.name, Process: r.number, Info: info, Backend: remote}
	})
}

// supervise starts the plugin again whenever it ends by itself, until ctx is done or it has ended too often. One that
// never came up is left alone, since nothing has changed that would mend it, unless it was only too slow: see late. After a reload the
// new process is supervised.
func (s *slot) supervise(ctx context.Context) {
	for {
		r, _, _ := s.current()
		if r.fault == nil {
			select {
			case <-ctx.Done():
				return
			case <-s.replaced:
				continue
			case <-r.life.Done():
			}
		}
		if now, _, _ := s.current(); now != r {
			continue
		}
		if errors.Is(context.Cause(r.life), errStopped) {
			return
		}
		r.stop(context.WithoutCancel(ctx)) // what is left of it: the socket's folder, the client
		if !s.revive(ctx, r) {
			return
		}
	}
}

// revive tries until a process serves in place of one that has ended, be it that of a reload; false if there will be none.
func (s *slot) revive(ctx context.Context, last *running) bool {
	policy := s.opts.Restart
	if time.Since(last.started) > policy.Stable {
		s.change(func() { s.restarts = 0 })
	}
	why, what := context.Cause(last.life), "has ended"
	if last.fault != nil {
		why, what = last.fault, "did not come up"
	}
	for {
		_, n, _ := s.current()
		if n++; n > policy.Most {
			return s.giveUp(last, fmt.Errorf("it %s %d times in a row and is not started again; the last time: %w", what, n, why))
		}
		wait := policy.delay(n)
		s.change(func() { s.restarts, s.due = n, time.Now().Add(wait) })
		last.log.Info("plugin will be restarted", "in", wait, "attempt", n, "of", policy.Most)
		select {
		case <-ctx.Done():
			return false
		case <-s.replaced:
			return true
		case <-time.After(wait):
		}
		next, err := s.again(ctx, last)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			return s.giveUp(last, err)
		case next.fault != nil:
			why = next.fault
			continue
		}
		last.log.Info("plugin was restarted", "pid", next.process.ID(), "took", next.took)
		if f := s.host.serving.Load(); f != nil {
			(*f)(last.name)
		}
		return true
	}
}

// again starts the same file once more. The error is one that another try would not mend.
func (s *slot) again(ctx context.Context, last *running) (*running, error) {
	s.mu.Lock()
	was := s.binary
	s.mu.Unlock()
	b, err := s.starter.check(Spec{Name: last.name, Path: was.path, SHA256: was.sha256})
	if err != nil {
		return nil, fmt.Errorf("it is not restarted, its file has changed (`weir plugins reload %s` accepts it): %w", last.name, err)
	}
	b.spec = was.spec
	next, err := s.starter.launch(ctx, b, s.opts)
	if err == nil && next.fault == nil {
		err = s.host.fits(s, last, next)
	}
	if err == nil && next.fault == nil && !s.take(last, next) {
		err = errStopped
	}
	if err != nil || next.fault != nil {
		next.stop(context.WithoutCancel(ctx))
	}
	return next, err
}

// take has a process serve from now on, unless the host is closed or a reload was faster.
func (s *slot) take(last, next *running) (taken bool) {
	s.change(func() {
		if taken = !s.closed && s.now == last; taken {
			s.now, s.late = next, false
		}
	})
	return taken
}

// sameOffer refuses another process of a plugin that offers something else than the one before.
func sameOffer(before, now pluginv1.Description) error {
	names := func(d pluginv1.Description) string {
		all := lo.Map(d.Backends, func(i backend.Info, _ int) string { return i.Name + " (" + string(i.Kind) + ")" })
		return d.Name + ": " + strings.Join(slices.Sorted(slices.Values(all)), ", ")
	}
	if a, b := names(before), names(now); a != b {
		return fmt.Errorf("it now offers %s; before it was %s", b, a)
	}
	return nil
}

// giveUp has the plugin serve no more; true if a reload was faster.
func (s *slot) giveUp(last *running, why error) (faster bool) {
	s.change(func() {
		if s.closed || s.now != last {
			faster = !s.closed
			return
		}
		s.supervised, s.late = false, false
		s.now.log.Error("plugin is given up", "err", why)
		s.quarantine = &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: fmt.Errorf("plugin %s: %w", s.now.name, why)}
	})
	return faster
}

// stop ends the plugin for good.
func (s *slot) stop(ctx context.Context) {
	var r *running
	var others []*running
	s.change(func() { s.closed, r, others = true, s.now, s.others })
	for _, o := range others {
		o.stop(ctx)
	}
	r.stop(ctx)
}

func (s *slot) status() Status {
	r, restarts, quarantine := s.current()
	status := r.status()
	status.Restarts = restarts
	if quarantine != nil {
		status.Err = quarantine
	}
	return status
}
