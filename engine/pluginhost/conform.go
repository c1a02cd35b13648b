package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/samber/lo"
)

// Health asks gRPC's health service for the state of the service "plugin", as go-plugin's own hosts do.
func (h *Host) Health(ctx context.Context, plugin string) error {
	s, err := h.slot(plugin)
	if err != nil {
		return err
	}
	r, _, _ := s.current()
	answered := make(chan error, 1)
	go func() {
		protocol, err := r.client.Client()
		if err == nil {
			err = protocol.Ping()
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			return fmt.Errorf("grpc.health.v1.Health/Check of the service \"plugin\": %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("grpc.health.v1.Health/Check of the service \"plugin\": %w", ctx.Err())
	}
}

// Restart kills a plugin's process and starts another in its place.
func (h *Host) Restart(ctx context.Context, plugin string) error {
	s, err := h.slot(plugin)
	if err != nil {
		return err
	}
	was, _, _ := s.current()
	was.process.kill()
	select {
	case <-was.process.done:
	case <-ctx.Done():
		return fmt.Errorf("process %s does not end: %w", was.process.ID(), ctx.Err())
	}
	for {
		s.mu.Lock()
		now, over, changed := s.now, s.closed || s.quarantine != nil, s.changed
		why := s.quarantine
		s.mu.Unlock()
		switch {
		case over:
			return errors.Join(why, errors.New("it is not started again"))
		case now != was && now.life.Err() == nil:
			s.change(func() { s.restarts = 0 }) // it did nothing wrong
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("it did not come up again: %w", ctx.Err())
		}
	}
}

// Orphan starts one more process of a plugin, lets go of it as the death of an engine does, and returns how long it lived on.
func (h *Host) Orphan(ctx context.Context, plugin string) (time.Duration, error) {
	s, err := h.slot(plugin)
	if err != nil {
		return 0, err
	}
	r, err := s.starter.launch(ctx, s.binaryNow(), s.opts)
	if err == nil {
		err = r.fault
	}
	if r != nil {
		defer r.stop(context.WithoutCancel(ctx))
	}
	if err != nil {
		return 0, err
	}
	began := time.Now()
	r.process.cutLifeline()
	select {
	case <-r.process.done:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("process %s is still there %s after descriptor 3 came to its end", r.process.ID(), time.Since(began).Round(100*time.Millisecond))
	}
}

func (h *Host) slot(plugin string) (*slot, error) {
	s, found := lo.Find(h.slots, func(s *slot) bool { return s.binaryNow().spec.Name == plugin })
	if !found {
		return nil, fmt.Errorf("there is no plugin %q", plugin)
	}
	return s, nil
}
