package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/p2p"
)

// PeerAccess is what is known of peer-to-peer access between every two of the ranks' GPUs: the weakest evidence of all
// pairs, of theirs alone. detail says which ranks failed, and what was observed.
func PeerAccess(ranks []collective.Rank, t topology.Graph) (access topology.P2P, detail string) {
	if len(ranks) < 2 || lo.SomeBy(ranks, func(r collective.Rank) bool { return r.Device == nil }) {
		return t.P2P, ""
	}
	access = topology.P2PVerified
	failed := 0
	for a, from := range ranks {
		for b, to := range ranks {
			if a == b {
				continue
			}
			e, why := t.Evidence(*from.Device, *to.Device)
			access = access.Weaker(e)
			if e != topology.P2PFailed {
				continue
			}
			if failed++; failed == 1 {
				detail = fmt.Sprintf("rank %d into the memory of rank %d: %s", a, b, why)
			}
		}
	}
	switch {
	case access != topology.P2PFailed:
		return access, ""
	case failed > 1:
		detail += fmt.Sprintf("; %d more directions failed", failed-1)
	}
	return access, detail
}

// topology is the machine with all that was proved so far.
func (a *Agent) topology() topology.Graph {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.graph
}

// prove has peer-to-peer access between the group's GPUs tried where the driver reports it, if a backend needs the proof and
// lacks nothing else. Only the group's decision, of which there is one at a time, changes its facts.
func (g *group) prove(class collective.Class) {
	a := g.job.agent
	if a.opts.Prove == nil || !g.wantsProof(class) {
		return
	}
	a.proveMu.Lock()
	defer a.proveMu.Unlock()
	devices := lo.UniqBy(lo.Map(g.facts.Ranks, func(r collective.Rank, _ int) topology.Device { return *r.Device }), topology.Device.Identity)
	graph := a.topology() // another group may have had some of it tried meanwhile
	left := lo.Filter(p2p.Directions(len(devices)), func(d p2p.Direction, _ int) bool {
		from, to := devices[d.From], devices[d.To]
		e, _ := graph.Evidence(from, to)
		return e == topology.P2PReported && !a.tried[[2]string{from.Identity(), to.Identity()}]
	})
	if len(left) > 0 {
		ctx, cancel := context.WithCancel(a.background())
		defer cancel()
		go a.cancelWhenDone(ctx, cancel)
		graph = graph.WithProofs(a.opts.Prove(ctx, devices, left))
		for _, d := range left {
			a.tried[[2]string{devices[d.From].Identity(), devices[d.To].Identity()}] = true
		}
		a.mu.Lock()
		a.graph = graph
		a.mu.Unlock()
	}
	g.facts.P2P, g.facts.P2PDetail = PeerAccess(g.facts.Ranks, graph)
}

// wantsProof reports whether a backend would be left in the cascade if the peer-to-peer access that the driver reports were
// proved.
func (g *group) wantsProof(class collective.Class) bool {
	if class.Memory != collective.CUDA || g.facts.P2P != topology.P2PReported || lo.SomeBy(g.facts.Ranks, func(r collective.Rank) bool { return r.Device == nil }) {
		return false
	}
	proved := backend.Request{Group: g.facts, Class: class}
	proved.Group.P2P = topology.P2PVerified
	opts := g.job.agent.opts
	return slices.ContainsFunc(opts.Candidates(), func(c dispatch.Candidate) bool {
		return c.Backend != nil && len(c.Gates) == 0 && c.Info.Requirements.P2P == topology.P2PVerified &&
			!slices.Contains(opts.Policy.Disabled, c.Info.Name) && c.Info.Check(proved).Kind == backend.Accept
	})
}

// cancelWhenDone ends work when the agent does.
func (a *Agent) cancelWhenDone(ctx context.Context, cancel context.CancelFunc) {
	select {
	case <-a.done:
		cancel()
	case <-ctx.Done():
	}
}
