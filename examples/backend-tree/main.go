// Command backend-tree is a plugin with a double-binary-tree all-reduce: half of the message goes up and down one tree, half
// another, and who is inside one tree is a leaf of the other.
//
// In one binary tree the leaves, half of the ranks, do little. Two trees share the work: each takes half of the message,
// and the second has the ranks in the opposite order. A rank then waits for log2(n) others one after the other, as in
// one tree, but reads about half as much. (Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast,
// reduction and scan, 2009; NCCL uses them between hosts.)
package main

import (
	"context"
	"os"
	"slices"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/sdk/plugin"
)

func main() {
	os.Exit(plugin.Serve(plugin.Plugin{Name: "tree", Version: "0.1.0", Backends: []backend.Backend{trees{}}}))
}

type trees struct{}

// Info says what the backend is and what it needs.
func (trees) Info() backend.Info {
	return backend.Info{
		Name:        "tree",
		Description: "shared memory, each half of the message is added up along a binary tree of its own",
		Kind:        plan.ScheduleKind,
		Requirements: backend.Requirements{
			WorldSizes:    []backend.Span{{Min: 2, Max: 128}},
			Memories:      []collective.Memory{collective.Host},
			Scope:         backend.OneHost,
			Deterministic: true, // the sum is made once, at the root, and copied from there
		},
	}
}

// Accept says yes to every message size.
func (trees) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(backend.AllBytes()...), nil
}

// parent is the rank above one in the first tree, and the root's is -1. Ranks with an odd number are leaves; one whose
// number ends in k zero bits is at height k.
func parent(rank, n int) int {
	if rank == 0 {
		return -1
	}
	lowest := rank & -rank
	if up := rank&^lowest | lowest<<1; up < n {
		return up
	}
	return rank &^ lowest
}

// family is the parent of a rank in a tree, -1 if it has none, and its children.
func family(tree, rank, n int) (up int, down []int) {
	here := place(tree, rank, n)
	up = -1
	for other := range n {
		switch there := place(tree, other, n); {
		case parent(here, n) == there:
			up = other
		case parent(there, n) == here:
			down = append(down, other)
		}
	}
	return up, down
}

// place is where a rank stands in a tree. In the second tree the ranks stand in the opposite order if n is even; if it is
// odd each is moved on by one. Both turn even places into odd ones.
func place(tree, rank, n int) int {
	switch {
	case tree == 0:
		return rank
	case n%2 == 0:
		return n - 1 - rank
	}
	return (rank + 1) % n
}

// Plan is the program of every rank. Tree t has chunk t of the message, and a signal for each way. A rank puts its data where
// it is a leaf first, since another waits for it, and takes the result from there last, since nobody does. What a root adds
// up comes last and is passed on first: it waits longest, and all wait for it.
//
// One slot is enough: a rank that overwrites its partial sum with the result has the result from those who read the sum.
func (trees) Plan(_ context.Context, req backend.Request, _ []backend.Range) (plan.Plan, error) {
	n := req.Group.WorldSize()
	summed := func(tree int) int { return tree }
	done := func(tree int) int { return 2 + tree }
	shape := schedule.Shape{TileBytes: 64 << 10, Buffers: 2, Slots: 1, Signals: 4, Chunks: 2}
	return schedule.Build(n, shape, func(r *schedule.Rank) {
		mine := schedule.Slot(r.Rank, 0)
		order := []int{0, 1}
		up, down := family(0, r.Rank, n)
		if isRoot := up < 0; isRoot || len(down) > 0 && parent(place(1, r.Rank, n), n) >= 0 {
			order = []int{1, 0}
		}
		for _, tree := range order {
			up, down := family(tree, r.Rank, n)
			sum := []plan.Place{schedule.In()}
			for _, child := range down {
				r.Wait(child, summed(tree))
				sum = append(sum, schedule.Slot(child, 0))
			}
			switch {
			case up < 0:
				r.ReduceFinal(mine, sum, tree)
			case len(down) == 0:
				r.Copy(mine, schedule.In(), tree)
			default:
				r.Reduce(mine, sum, tree)
			}
			r.Signal(summed(tree))
		}
		for _, tree := range slices.Backward(order) {
			up, down := family(tree, r.Rank, n)
			result := mine
			if up >= 0 {
				r.Wait(up, done(tree))
				result = schedule.Slot(up, 0)
			}
			if up >= 0 && len(down) > 0 {
				r.Copy(mine, result, tree)
				result = mine
			}
			r.Signal(done(tree))
			r.Copy(schedule.Out(), result, tree)
		}
	}), nil
}

// Release has nothing to end.
func (trees) Release(context.Context, string) error { return nil }
