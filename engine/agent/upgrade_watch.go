package agent

import (
	"context"
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// watch has the upgrade fail if the new process does when it is asked. A verdict is none the worse for being a decline.
func (u *upgrade) watch(candidates []dispatch.Candidate) []dispatch.Candidate {
	if u == nil {
		return candidates
	}
	return lo.Map(candidates, func(c dispatch.Candidate, _ int) dispatch.Candidate {
		if c.Plugin == u.of.Plugin && c.Backend != nil {
			c.Backend = watched{c.Backend, func(err error) { u.cancel(fmt.Errorf("the new process's backend %s: %w", c.Info.Name, err)) }}
		}
		return c
	})
}

type watched struct {
	backend.Backend
	failed func(error)
}

func (w watched) Accept(ctx context.Context, req backend.Request) (backend.Verdict, error) {
	v, err := w.Backend.Accept(ctx, req)
	if err == nil {
		err = v.Validate()
	}
	if err != nil {
		w.failed(err)
	}
	return v, err
}

// cancel keeps the upgrade from being committed. Who might come in its way holds g.mu, as it does to commit.
func (u *upgrade) cancel(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
		close(u.off)
	}
}

func (u *upgrade) why() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

func (u *upgrade) cancelled() <-chan struct{} {
	if u == nil {
		return nil
	}
	return u.off
}

// cancelUpgrade gives up an upgrade that is not committed. g.mu is held.
func (g *group) cancelUpgrade(err error) {
	if g.upgrade != nil {
		g.upgrade.cancel(err)
	}
}
