// Package schedule builds schedule plans.
package schedule

import "github.com/weir-project/weir/core/plan"

// Shape is the memory that a schedule asks for; see plan.Schedule.
type Shape struct {
	TileBytes int64
	Buffers   int
	Slots     int
	Signals   int
	Chunks    int
}

// Build makes a schedule for worldSize ranks by calling program once for each.
func Build(worldSize int, shape Shape, program func(r *Rank)) *plan.Schedule {
	s := &plan.Schedule{
		TileBytes: shape.TileBytes, Buffers: shape.Buffers, Slots: shape.Slots, Signals: shape.Signals, Chunks: shape.Chunks,
		Programs: make([][]plan.Step, worldSize),
	}
	for i := range worldSize {
		r := &Rank{Rank: i, WorldSize: worldSize}
		program(r)
		s.Programs[i] = r.steps
	}
	return s
}

// Rank collects the steps of one rank's program, in order.
type Rank struct {
	Rank, WorldSize int
	steps           []plan.Step
}

// In is the caller's source buffer.
func In() plan.Place { return plan.Place{Where: plan.In} }

// Out is the caller's destination buffer.
func Out() plan.Place { return plan.Place{Where: plan.Out} }

// Slot is a slot of a rank.
func Slot(rank, slot int) plan.Place { return plan.Place{Where: plan.Slot, Rank: rank, Slot: slot} }

// PeerIn is the source buffer of a rank's caller, in registered memory.
func PeerIn(rank int) plan.Place { return plan.Place{Where: plan.PeerIn, Rank: rank} }

// PeerOut is the destination buffer of a rank's caller, in registered memory.
func PeerOut(rank int) plan.Place { return plan.Place{Where: plan.PeerOut, Rank: rank} }

// Ins is the source buffer of every rank, in rank order, in registered memory.
func (r *Rank) Ins() []plan.Place {
	places := make([]plan.Place, r.WorldSize)
	for i := range places {
		places[i] = PeerIn(i)
	}
	places[r.Rank] = In()
	return places
}

// Slots is the same slot of every rank, in rank order.
func (r *Rank) Slots(slot int) []plan.Place {
	places := make([]plan.Place, r.WorldSize)
	for i := range places {
		places[i] = Slot(i, slot)
	}
	return places
}

// Peers is every other rank, beginning with the next one so that ranks do not all turn to the same peer at once.
func (r *Rank) Peers() []int {
	peers := make([]int, 0, r.WorldSize-1)
	for d := 1; d < r.WorldSize; d++ {
		peers = append(peers, (r.Rank+d)%r.WorldSize)
	}
	return peers
}

// Copy copies a chunk.
func (r *Rank) Copy(dst, src plan.Place, chunk int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Copy, Dst: dst, Srcs: []plan.Place{src}, Chunk: chunk})
}

// CopyFinal copies a chunk that then holds every rank's contribution; only a group of one needs it.
func (r *Rank) CopyFinal(dst, src plan.Place, chunk int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Copy, Dst: dst, Srcs: []plan.Place{src}, Chunk: chunk, Final: true})
}

// Reduce combines a chunk of several sources into dst; more contributions follow in a later step.
func (r *Rank) Reduce(dst plan.Place, srcs []plan.Place, chunk int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Reduce, Dst: dst, Srcs: srcs, Chunk: chunk})
}

// ReduceFinal combines a chunk of several sources into dst, which then holds every rank's contribution.
func (r *Rank) ReduceFinal(dst plan.Place, srcs []plan.Place, chunk int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Reduce, Dst: dst, Srcs: srcs, Chunk: chunk, Final: true})
}

// Signal tells the other ranks that this rank has come this far with the tile.
func (r *Rank) Signal(signal int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Signal, Signal: signal})
}

// Wait waits until a rank has given the signal for this tile.
func (r *Rank) Wait(rank, signal int) {
	r.steps = append(r.steps, plan.Step{Kind: plan.Wait, Rank: rank, Signal: signal})
}

// WaitAll waits for the signal of every other rank.
func (r *Rank) WaitAll(signal int) {
	for _, p := range r.Peers() {
		r.Wait(p, signal)
	}
}
