package schedule

import (
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// Prove refuses a schedule unless it is right for its number of ranks: for every message size, any number of calls one
// after the other, in place and out of place, and whatever the ranks' relative speed. It proves that
//
//   - every element of every rank's destination ends up with each rank's contribution exactly once, having passed
//     exactly one final step, with nothing added after it;
//   - no rank waits for ever;
//   - any two accesses to the same memory by different ranks, of which one writes, are put in order by signals and waits.
//
// The error is what Validate says of a malformed schedule, or a *Refused with a counter-example. Prove is a pure
// function and may be called from anywhere; to prove the same schedules again and again, use a Prover.
//
// # Why a few tiles stand for all
//
// An event is a step of a rank for a tile. Event a surely comes before event b if a path leads there over two kinds of
// edge: from an event to the next one of its rank (the last step for a tile is followed by the first for the next tile,
// in the same call or in a later one), and from the first giving of a signal for tile t-lag to a wait for it in tile t.
// The second is all that a wait guarantees: it ends with any later tile's number too, and from a later number nothing
// more follows. Ranks run ahead as far as these edges let them, and nothing else is assumed. Three properties bound the
// search:
//
//  1. Edges never lead to an earlier tile, so a path from tile t to tile u only visits tiles t to u.
//  2. The edges of a tile do not depend on its number, its length, or which call it belongs to. Waits that reach back
//     before the first tile end at once, but by (1) no path between later tiles uses them.
//  3. Hence whether a path leads from a step for tile t to a step for tile u depends only on u-t.
//
// Deadlock: every cycle lies within one tile, by (1). So one tile without a cycle, in which every signal that is waited
// for is given at all, means that no number of tiles stops: tile after tile can be completed.
//
// Conflicts within a tile: by (3), those of the first tile are those of all. Conflicts between tiles: tile t uses the
// same copies of the slots as tiles t+Buffers, t+2*Buffers and so on. By (3) it is enough to look at tiles 1 and
// 1+Buffers: the rank that makes an access in a later tile made it in that one before, and a path leads from there. The
// tiles in between are walked for the paths that lead through them.
//
// Callers' buffers: those that other ranks read count as one memory, as in a call in place, and nobody may read them before
// a step that surely comes after the owner has begun the tile, nor go on reading when the owner has ended it, for the
// call may then be over. Between tiles nothing else has to be looked at.
//
// Results: with all conflicting accesses in order, each read of a tile sees the same write in every execution, so one
// execution stands for all. It is done with sets of contributions as values, and a slot that was not written for this
// tile counts as garbage: what an earlier tile left there is of no use.
//
// Lengths: tiles may be shorter than TileBytes, with chunks that are empty, but steps on an empty chunk still signal and
// wait. All elements of a chunk are treated alike, so one element of each chunk stands for all. From tile to tile the
// same offset may belong to different chunks, since a shorter tile has shorter chunks; therefore two accesses in different
// tiles are taken to touch the same memory whatever their chunks are.
func Prove(s *plan.Schedule) error {
	if err := s.Validate(len(s.Programs)); err != nil {
		return err
	}
	if err := unheard(s); err != nil {
		return err
	}
	p := &proof{s: s, chunks: existingChunks(s)}
	if err := p.conflicts(); err != nil {
		return err
	}
	return p.results()
}

// maxWork bounds the time that a plugin's plan can take, at about a nanosecond or two for each unit. Two-shot for 256
// ranks needs a fifth of it.
const maxWork = 1 << 30

// proof is the state of one Prove.
type proof struct {
	s      *plan.Schedule
	chunks int // those with a higher number are empty in every tile
	work   int

	order   []Event   // copies and reduces of tile 1, in an order in which they may be executed
	touched [][]touch // in tile 1, by slot
	lent    [][]touch // in tile 1, by rank: its callers' buffers, in and out as if in place; nil if others do not read them
}

// existingChunks is how many chunks are not empty in some tile: a chunk is at least a cache line of 64 bytes.
func existingChunks(s *plan.Schedule) int {
	return int(min(int64(s.Chunks), s.TileBytes/64))
}

// spend counts work.
func (p *proof) spend(work int) error {
	if p.work += work; p.work > maxWork {
		return fmt.Errorf("schedule: too large to be proved (%d ranks, %d chunks, %d buffers): give it fewer steps, sources or chunks",
			len(p.s.Programs), p.s.Chunks, p.s.Buffers)
	}
	return nil
}

// exists reports whether a copy or reduce ever touches anything.
func (p *proof) exists(t *plan.Step) bool { return t.Chunk < p.chunks }

func moves(t *plan.Step) bool { return t.Kind == plan.Copy || t.Kind == plan.Reduce }
