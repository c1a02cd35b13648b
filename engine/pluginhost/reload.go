package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/dispatch"
)

// Replacement is a new process of a plugin that runs beside the one that serves, until it is accepted or refused.
type Replacement struct {
	host      *Host
	slot      *slot
	binary    binary
	old, next *running
}

// Reload starts a plugin's file, as it is now, beside the process that serves, which is left as it is. sha256 is what the
// file must have in place of what is configured; "" for the latter. The error is for the user: the file is not fit to run,
// the process does not come up, or it offers other backends than before. Of one plugin there is one replacement at a time.
func (h *Host) Reload(ctx context.Context, name, sha256 string) (*Replacement, error) {
	s, found := lo.Find(h.slots, func(s *slot) bool { return s.binaryNow().spec.Name == name })
	if !found {
		names := lo.Map(h.slots, func(s *slot, _ int) string { return s.binaryNow().spec.Name })
		return nil, fmt.Errorf("there is no plugin %q; there are %v", name, names)
	}
	if err := s.beginReload(); err != nil {
		return nil, fmt.Errorf("reload plugin %s: %w", name, err)
	}
	r, err := h.replacement(ctx, s, sha256)
	if err != nil {
		s.change(func() { s.reloading = false })
		return nil, fmt.Errorf("reload plugin %s: %w", name, err)
	}
	return r, nil
}

func (h *Host) replacement(ctx context.Context, s *slot, sha256 string) (*Replacement, error) {
	old, _, _ := s.current()
	spec := s.binaryNow().spec
	spec.SHA256 = cmp.Or(sha256, spec.SHA256)
	b, err := s.starter.check(spec)
	if err != nil {
		return nil, err
	}
	next, err := s.starter.launch(ctx, b, s.opts)
	if err == nil {
		err = next.fault
	}
	if err == nil && old.fault == nil {
		err = sameOffer(old.offer, next.offer)
	}
	if err == nil && old.fault != nil {
		err = h.checkNames(func(other *slot) *running {
			return lo.Ternary(other == s, next, other.nowRunning())
		})
	}
	if err == nil && !s.keep(next) {
		err = errStopped
	}
	if err != nil {
		if next != nil {
			next.stop(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	return &Replacement{host: h, slot: s, binary: b, old: old, next: next}, nil
}

// Candidates are the backends of all plugins as they will be once the replacement is accepted.
func (r *Replacement) Candidates() []dispatch.Candidate {
	return lo.FlatMap(r.host.slots, func(s *slot, _ int) []dispatch.Candidate {
		if s == r.slot {
			return r.next.candidates(nil)
		}
		return s.candidates()
	})
}

// Replaced is the number of the process that serves, as its candidates carry it.
func (r *Replacement) Replaced() uint64 { return r.old.number }

// OldPID is the process that serves, or did before Accept.
func (r *Replacement) OldPID() int { return r.old.status().PID }

// Status is what is known of the new process.
func (r *Replacement) Status() Status { return r.next.status() }

// Accept has the new process answer all questions from now on, and supervises it. The old one lives on until Retire, for
// groups that it serves as a worker. If the new one has ended meanwhile it is started again. The error is a host that was
// closed.
func (r *Replacement) Accept() error {
	s := r.slot
	closed := false
	s.change(func() {
		s.reloading, closed = false, s.closed
		if closed {
			return
		}
		r.old = s.now // which may have been started again
		s.others = append(lo.Without(s.others, r.next), s.now)
		s.now, s.late, s.binary, s.quarantine, s.restarts, s.due = r.next, false, r.binary, nil, 0, time.Time{}
		select {
		case s.replaced <- struct{}{}:
		default:
		}
		if !s.supervised {
			s.supervised = true
			r.host.supervisors.Go(func() { s.supervise(r.host.life) })
		}
	})
	if closed {
		return errStopped
	}
	return nil
}

// Refuse ends the new process; the old one serves on.
func (r *Replacement) Refuse(ctx context.Context) {
	r.slot.drop(ctx, r.next)
	r.slot.change(func() { r.slot.reloading = false })
}

// Retire ends the old process after Accept. No worker of it may serve a group any more.
func (r *Replacement) Retire(ctx context.Context) { r.slot.drop(ctx, r.old) }

func (s *slot) beginReload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errStopped
	case s.now.attached != nil:
		return errors.New("it is attached: end it and this engine, and start both again")
	case s.reloading:
		return errors.New("another reload of it is in progress")
	}
	s.reloading = true
	return nil
}

// keep holds a process in hand that does not serve; false if the host is closed.
func (s *slot) keep(r *running) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.others = append(s.others, r)
	}
	return !s.closed
}

// drop ends a process that does not serve.
func (s *slot) drop(ctx context.Context, r *running) {
	r.stop(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = lo.Without(s.others, r)
}

// all are the plugin's processes, the one that serves first.
func (s *slot) all() []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*running{s.now}, slices.Clone(s.others)...)
}

func (s *slot) nowRunning() *running {
	r, _, _ := s.current()
	return r
}

func (s *slot) binaryNow() binary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.binary
}
