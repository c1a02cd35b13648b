package agent

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
)

// spoiltWorker is a worker backend of a plugin's process.
type spoiltWorker struct {
	process uint64
	backend string
}

// spoil notes that a worker's service has failed. Its process may live on, but is not trusted with another group or class; one that
// takes its place is.
func (a *Agent) spoil(x *instance, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spoilt[spoiltWorker{x.process, x.backend}] = why
}

// candidates are the backends as they are now. A worker whose service has failed is none until its plugin is restarted.
func (a *Agent) candidates() []dispatch.Candidate {
	all := a.opts.Candidates()
	a.mu.Lock()
	for k := range a.spoilt { // of processes that are gone
		if !lo.SomeBy(all, func(c dispatch.Candidate) bool { return c.Process == k.process }) {
			delete(a.spoilt, k)
		}
	}
	a.mu.Unlock()
	return a.unspoilt(all)
}

// unspoilt is a list of candidates in which workers whose service has failed are none.
func (a *Agent) unspoilt(all []dispatch.Candidate) []dispatch.Candidate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return lo.Map(all, func(c dispatch.Candidate, _ int) dispatch.Candidate {
		if why, spoilt := a.spoilt[spoiltWorker{c.Process, c.Info.Name}]; spoilt && c.Fault == nil {
			c.Backend = nil
			c.Fault = &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: fmt.Errorf(
				"its worker failed in this process, which is not used again (`weir plugins reload %s` starts another): %w", c.Plugin, why)}
		}
		return c
	})
}
