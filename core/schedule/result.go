package schedule

import (
	"fmt"
	"math/bits"

	"github.com/weir-project/weir/core/plan"
)

// ranks is a set of up to plan.MaxWorld ranks.
type ranks [plan.MaxWorld / 64]uint64

func (r *ranks) add(rank int) { r[rank/64] |= 1 << (rank % 64) }

// first is the smallest rank that has the property; every set asked has one.
func (r *ranks) first() int {
	for i, word := range r {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return 0
}

func (r *ranks) and(o *ranks) (both ranks) {
	for i := range r {
		both[i] = r[i] & o[i]
	}
	return both
}

// value is what an element holds: each of these ranks' contribution once, having passed a final step or not. A value with
// a fault is of no use, whatever it holds.
type value struct {
	of    ranks
	final bool
	fault *fault
}

// fault is why a value is of no use: what its first wrong step did.
type fault struct {
	at      Event
	problem string
}

// element executes the schedule on one element of a chunk, in one tile.
type element struct {
	p       *proof
	all     ranks
	chunk   int
	inPlace bool
	slots   []value
	in, out []value // one slice if in place
	wrote   []int   // step in which a rank last wrote its out; -1 if not yet
}

// unwritten marks what was not written for this tile.
var unwritten = &fault{}

// results executes one tile and refuses destinations that are not as they should be.
func (p *proof) results() error {
	n := len(p.s.Programs)
	x := &element{p: p, slots: make([]value, n*p.s.Slots), in: make([]value, n), wrote: make([]int, n)}
	for rank := range n {
		x.all.add(rank)
	}
	if err := p.spend(2 * p.chunks * (len(p.order) + len(x.slots))); err != nil {
		return err
	}
	for _, inPlace := range []bool{false, true} {
		x.inPlace, x.out = inPlace, x.in
		if !inPlace {
			x.out = make([]value, n)
		}
		for chunk := range p.chunks {
			if err := x.run(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *element) run(chunk int) error {
	x.chunk = chunk
	for i := range x.slots {
		x.slots[i] = value{fault: unwritten}
	}
	for rank := range x.in {
		x.wrote[rank] = -1
		x.out[rank] = value{fault: unwritten}
		x.in[rank] = value{}
		x.in[rank].of.add(rank)
	}
	for _, e := range x.p.order {
		t := &x.p.s.Programs[e.Rank][e.Step]
		if t.Chunk != plan.AllChunks && t.Chunk != chunk {
			continue
		}
		if err := x.p.spend(2 * len(t.Srcs)); err != nil {
			return err
		}
		*x.at(e.Rank, t.Dst) = x.combine(e, t)
		if t.Dst.Where == plan.Out {
			x.wrote[e.Rank] = e.Step
		}
	}
	for rank := range x.out {
		if err := x.check(rank); err != nil {
			return err
		}
	}
	return nil
}

func (x *element) at(rank int, at plan.Place) *value {
	switch at.Where {
	case plan.In:
		return &x.in[rank]
	case plan.Out:
		return &x.out[rank]
	case plan.PeerIn:
		return &x.in[at.Rank]
	case plan.PeerOut:
		return &x.out[at.Rank]
	}
	return &x.slots[at.Rank*x.p.s.Slots+at.Slot]
}

// combine is what a copy or reduce makes of its sources.
func (x *element) combine(e Event, t *plan.Step) value {
	var sum value
	for _, src := range t.Srcs {
		v := *x.at(e.Rank, src)
		switch twice := sum.of.and(&v.of); {
		case v.fault == unwritten:
			return x.wrong(e, "reads %s, which nobody has written by then%s", place(src), x.where())
		case x.spoiled(e.Rank, src, &v):
			step, out := fmt.Sprintf("step %d", x.wrote[ownerOf(e.Rank, src)]), "out"
			if src.Where == plan.PeerIn {
				step, out = fmt.Sprintf("%s of rank %d", step, src.Rank), "its out"
			}
			return x.wrong(e, "reads %s after %s has written %s%s: in a call in place they are the same memory", place(src), step, out, x.where())
		case v.fault != nil:
			return v
		case len(t.Srcs) > 1 && v.final:
			return x.wrong(e, "adds %s to other sources, which is the complete result already%s", place(src), x.where())
		case twice != ranks{}:
			return x.wrong(e, "adds the contribution of rank %d twice%s", twice.first(), x.where())
		}
		for i := range sum.of {
			sum.of[i] |= v.of[i]
		}
		sum.final = v.final
	}
	switch {
	case !t.Final:
		return sum
	case sum.final:
		return x.wrong(e, "is a final step for what has passed a final step already%s", x.where())
	case sum.of != x.all:
		return x.wrong(e, "is marked final without the contribution of rank %d%s", x.lacks(&sum.of), x.where())
	}
	sum.final = true
	return sum
}

// spoiled reports whether a source is a rank's in which that rank has overwritten in a call in place.
func (x *element) spoiled(rank int, src plan.Place, v *value) bool {
	if !x.inPlace || src.Where != plan.In && src.Where != plan.PeerIn {
		return false
	}
	owner := ownerOf(rank, src)
	return x.wrote[owner] >= 0 && (v.final || v.fault != nil || v.of != only(owner))
}

// ownerOf is whose memory a place is when a rank names it.
func ownerOf(rank int, at plan.Place) int {
	if at.Where == plan.In || at.Where == plan.Out {
		return rank
	}
	return at.Rank
}

// check refuses a rank's destination at the end of the tile.
func (x *element) check(rank int) error {
	v, at := x.out[rank], Event{Rank: rank, Step: x.wrote[rank], Tile: 1}
	switch {
	case x.wrote[rank] < 0:
		return refuse(x.p.s, at, nil, "no step writes out"+x.where())
	case v.fault != nil:
		var details []string
		if v.fault.at.Rank != rank {
			details = []string{fmt.Sprintf("It ends up in the out of rank %d, by its step %d (%s).", rank, at.Step, Words(x.p.s.Programs[rank][at.Step]))}
		}
		return refuse(x.p.s, v.fault.at, nil, v.fault.problem, details...)
	case v.of != x.all:
		return refuse(x.p.s, at, nil, fmt.Sprintf("leaves out without the contribution of rank %d%s", x.lacks(&v.of), x.where()))
	case !v.final:
		return refuse(x.p.s, at, nil, "leaves a result in out that never passed a final step"+x.where())
	}
	return nil
}

func (x *element) wrong(e Event, format string, args ...any) value {
	return value{fault: &fault{at: e, problem: fmt.Sprintf(format, args...)}}
}

// where names the chunk, where there are several.
func (x *element) where() string {
	if x.p.s.Chunks == 1 {
		return ""
	}
	return fmt.Sprintf(" in chunk %d", x.chunk)
}

func (x *element) lacks(have *ranks) int {
	var missing ranks
	for i := range missing {
		missing[i] = x.all[i] &^ have[i]
	}
	return missing.first()
}

func only(rank int) (r ranks) {
	r.add(rank)
	return r
}
