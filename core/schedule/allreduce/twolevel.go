package allreduce

import (
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

// TwoLevel adds up within each node first, then between nodes, so that little crosses from node to node. node[r] is the
// number of the NUMA node of rank r; any numbers will do, and nodes may have different numbers of ranks.
//
// The message is in k·w parts for k nodes of at most w ranks. Each part belongs to a node, and has one rank in each node
// that takes care of it there. Four waits for others: all of the node have filled their slots; one rank of each other
// node has a sum; one rank of another node has a result; all of the node have the results. For a message of m bytes each
// rank reads about 2m from slots of its own node and 2(k-1)/(k·w)·m from other nodes; two-shot reads 2(k-1)/k·m from
// there. Each part is added up by node and then over the nodes, and copied: the same bits everywhere, but 16-bit types are
// rounded twice.
//
// Two copies of each slot are enough, as in TwoShot: the result of a tile takes every rank's part in it.
func TwoLevel(node []int, tileBytes int64) *plan.Schedule {
	if len(node) == 1 {
		return alone(tileBytes)
	}
	const filled, summed, complete, fetched = 0, 1, 2, 3
	const inputs, sums = 0, 1 // slots
	nodes := lo.PartitionBy(lo.Range(len(node)), func(rank int) int { return node[rank] })
	width := lo.Max(lo.Map(nodes, func(members []int, _ int) int { return len(members) }))
	chunks := width * len(nodes)
	home := func(chunk int) int { return chunk % len(nodes) } // the node that a chunk belongs to
	keeper := func(chunk, node int) int {                     // who takes care of a chunk in a node
		return nodes[node][chunk/len(nodes)%len(nodes[node])]
	}
	shape := schedule.Shape{TileBytes: tileBytes, Buffers: 2, Slots: 2, Signals: 4, Chunks: chunks}
	return schedule.Build(len(node), shape, func(r *schedule.Rank) {
		here := lo.IndexOf(lo.Map(nodes, func(m []int, _ int) bool { return lo.Contains(m, r.Rank) }), true)
		kept := lo.Filter(lo.Range(chunks), func(c, _ int) bool { return keeper(c, here) == r.Rank })
		neighbours := lo.Filter(r.Peers(), func(p, _ int) bool { return node[p] == node[r.Rank] })
		mine := schedule.Slot(r.Rank, sums)

		r.Copy(schedule.Slot(r.Rank, inputs), schedule.In(), whole)
		r.Signal(filled)
		for _, p := range neighbours {
			r.Wait(p, filled)
		}
		for _, c := range kept {
			local := lo.Map(nodes[here], func(p, _ int) plan.Place { return schedule.Slot(p, inputs) })
			if len(nodes) == 1 {
				r.ReduceFinal(mine, local, c)
			} else {
				r.Reduce(mine, local, c)
			}
		}
		r.Signal(summed)
		for _, c := range kept {
			if home(c) != here || len(nodes) == 1 {
				continue
			}
			keepers := lo.Map(nodes, func(_ []int, n int) int { return keeper(c, n) })
			for _, p := range lo.Without(keepers, r.Rank) {
				r.Wait(p, summed)
			}
			r.ReduceFinal(mine, lo.Map(keepers, func(p, _ int) plan.Place { return schedule.Slot(p, sums) }), c)
		}
		r.Signal(complete)
		for _, c := range kept {
			if from := keeper(c, home(c)); home(c) != here {
				r.Wait(from, complete)
				r.Copy(mine, schedule.Slot(from, sums), c)
			}
		}
		r.Signal(fetched)
		for _, p := range neighbours {
			r.Wait(p, fetched)
		}
		for c := range chunks {
			r.Copy(schedule.Out(), schedule.Slot(keeper(c, here), sums), c)
		}
	})
}
