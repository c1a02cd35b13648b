// Command backend-numa is a plugin with a two-level all-reduce: first within each NUMA node, then between nodes, so that
// little crosses from node to node.
//
// With w ranks on the smallest node the message is in w chunks, and rank c of a node takes care of chunk c there: it adds
// up its node's ranks, then the sums of all nodes. (MPI libraries call it hierarchical; see the README's table for sources.)
package main

import (
	"context"
	"os"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	b := &twoLevel{}
	os.Exit(plugin.Serve(plugin.Plugin{
		Name: "numa", Version: "0.1.0", Backends: []backend.Backend{b},
		Configure: func(s plugin.Settings) error { return s.Decode(&b.settings) },
	}))
}

type twoLevel struct {
	settings struct {
		// Pretend takes the ranks to be on so many nodes, in blocks, whatever they bring: to try the algorithm on a
		// machine that has one.
		Pretend int `json:"pretend"`
	}
}

// Info says what the backend is and what it needs: ranks on two nodes or more, each bound to one.
func (b *twoLevel) Info() backend.Info {
	q := backend.Requirements{
		WorldSizes:    []backend.Span{{Min: 2, Max: 128}},
		Memories:      []collective.Memory{collective.Host},
		Scope:         backend.OneHost,
		NUMANodes:     2,
		Deterministic: true, // added in rank order within a node, then in the order of the nodes
	}
	if p := b.settings.Pretend; p > 0 {
		q.NUMANodes, q.WorldSizes[0].Min = 0, p
	}
	return backend.Info{
		Name: "numa", Description: "shared memory, sums within each NUMA node first, then between nodes",
		Kind: plan.ScheduleKind, Requirements: q,
	}
}

// Accept says yes to every message size.
func (*twoLevel) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// nodes are the ranks of each node.
func (b *twoLevel) nodes(g collective.Group) [][]int {
	return lo.PartitionBy(lo.Range(g.WorldSize()), func(rank int) any {
		if p := b.settings.Pretend; p > 0 {
			return rank * p / g.WorldSize()
		}
		return g.Ranks[rank].NUMA
	})
}

// Plan is the program of every rank. Two copies of each slot are enough: a rank begins tile t+2 when it has the results of
// t+1, for which every rank of its node has filled its slot and every node has given its sums, all of which come after what
// they did for t.
func (b *twoLevel) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	const input, sum, result = 0, 1, 2 // a slot each, and a signal that says that it is filled
	nodes := b.nodes(req.Group)
	width := len(lo.MinBy(nodes, func(a, b []int) bool { return len(a) < len(b) }))
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 2, Slots: 3, Signals: 3, Chunks: width}
	return schedule.Build(req.Group.WorldSize(), shape, func(r *schedule.Rank) {
		node, _ := lo.Find(nodes, func(ranks []int) bool { return lo.Contains(ranks, r.Rank) })
		c := lo.IndexOf(node, r.Rank) // the chunk that it takes care of, if there is one

		r.Copy(schedule.Slot(r.Rank, input), schedule.In(), plan.AllChunks)
		r.Signal(input)
		if c < width {
			waitFor(r, node, input)
			r.Reduce(schedule.Slot(r.Rank, sum), slots(node, input), c)
			r.Signal(sum)
			keepers := lo.Map(nodes, func(ranks []int, _ int) int { return ranks[c] })
			waitFor(r, keepers, sum)
			r.ReduceFinal(schedule.Slot(r.Rank, result), slots(keepers, sum), c)
			r.Signal(result)
		}
		for chunk, keeper := range node[:width] {
			waitFor(r, []int{keeper}, result)
			r.Copy(schedule.Out(), schedule.Slot(keeper, result), chunk)
		}
	}), nil
}

func waitFor(r *schedule.Rank, ranks []int, signal int) {
	for _, other := range lo.Without(ranks, r.Rank) {
		r.Wait(other, signal)
	}
}

func slots(ranks []int, slot int) []plan.Place {
	return lo.Map(ranks, func(rank, _ int) plan.Place { return schedule.Slot(rank, slot) })
}

// Release has nothing to end.
func (*twoLevel) Release(context.Context, string) error { return nil }
