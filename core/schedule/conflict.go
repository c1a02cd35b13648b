package schedule

import (
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// touch is what one rank does in tile 1 to one chunk of one copy of a slot: its last write and read, as counts of its
// events; 0 is none.
type touch struct {
	rank, chunk int
	write, read int32
}

// conflicts walks tiles 1 to 1+Buffers and refuses accesses that are not in order.
func (p *proof) conflicts() error {
	w := newWalk(p.s)
	p.touched = make([][]touch, len(p.s.Programs)*p.s.Slots)
	p.lend()
	for tile := 1; tile <= 1+p.s.Buffers; tile++ {
		check := func(Event, plan.Place, bool, int) error { return nil }
		switch tile {
		case 1:
			check = func(e Event, at plan.Place, write bool, chunk int) error { return p.within(w, e, at, write, chunk) }
		case 1 + p.s.Buffers:
			check = func(e Event, at plan.Place, write bool, _ int) error { return p.between(w, e, at, write) }
		}
		err := w.runTile(func(e Event, t *plan.Step) error {
			if !moves(t) {
				return p.spend(len(p.s.Programs))
			}
			if !p.exists(t) {
				return nil
			}
			if tile == 1 {
				p.order = append(p.order, e)
			}
			for _, src := range t.Srcs {
				if err := check(e, src, false, t.Chunk); err != nil {
					return err
				}
			}
			return check(e, t.Dst, true, t.Chunk)
		})
		if err == nil && tile == 1 {
			err = p.returned(w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within compares an access of tile 1 with those of other ranks before it, and notes it.
func (p *proof) within(w *walk, e Event, at plan.Place, write bool, chunk int) error {
	list := p.memory(e.Rank, at)
	if list == nil {
		return nil // a rank's own buffers are touched by nobody else
	}
	if at.Where == plan.PeerIn || at.Where == plan.PeerOut {
		if err := p.begun(w, e, at); err != nil {
			return err
		}
	}
	if err := p.spend(len(*list) + 1); err != nil {
		return err
	}
	var mine *touch
	for i := range *list {
		u := &(*list)[i]
		switch {
		case u.rank == e.Rank && u.chunk == chunk:
			mine = u
		case u.rank == e.Rank || chunk != plan.AllChunks && u.chunk != plan.AllChunks && chunk != u.chunk:
		default:
			if err := p.ordered(w, u, e, at, write); err != nil {
				return err
			}
		}
	}
	if mine == nil {
		*list = append(*list, touch{rank: e.Rank, chunk: chunk})
		mine = &(*list)[len(*list)-1]
	}
	if write {
		mine.write = w.count(e)
	} else {
		mine.read = w.count(e)
	}
	return nil
}

// memory is what has been done in tile 1 to what a rank calls so; nil if it concerns no other rank.
func (p *proof) memory(rank int, at plan.Place) *[]touch {
	switch {
	case at.Where == plan.Slot:
		return &p.touched[at.Rank*p.s.Slots+at.Slot]
	case p.lent == nil:
		return nil
	}
	return &p.lent[ownerOf(rank, at)]
}

// between compares an access of tile 1+Buffers with those of other ranks in tile 1.
func (p *proof) between(w *walk, e Event, at plan.Place, write bool) error {
	if at.Where != plan.Slot {
		return nil
	}
	list := p.touched[at.Rank*p.s.Slots+at.Slot]
	if err := p.spend(len(list) + 1); err != nil {
		return err
	}
	for i := range list {
		if u := &list[i]; u.rank != e.Rank {
			if err := p.ordered(w, u, e, at, write); err != nil {
				return err
			}
		}
	}
	return nil
}

// ordered refuses an access that does not surely come after the conflicting ones of another rank. Those come before it
// in the walk, so the other order is out of the question.
func (p *proof) ordered(w *walk, u *touch, e Event, at plan.Place, write bool) error {
	known := w.clocks[e.Rank][u.rank]
	switch {
	case u.write > known:
		return p.race(w.event(u.rank, u.write), true, e, write, at)
	case write && u.read > known:
		return p.race(w.event(u.rank, u.read), false, e, write, at)
	}
	return nil
}

// race words the counter-example: the reader, or else the one of the earlier tile, is where it happens.
func (p *proof) race(a Event, aWrites bool, b Event, bWrites bool, at plan.Place) error {
	if aWrites && !bWrites {
		a, b, aWrites = b, a, false
	}
	verb := map[bool]string{true: "writes", false: "reads"}[aWrites]
	what := "writing"
	if a.Tile < b.Tile {
		what = "overwriting"
	}
	when := fmt.Sprintf("for tile %d", b.Tile)
	if b.Tile == a.Tile {
		when = "for the same tile"
	}
	problem := fmt.Sprintf("%s %s, which rank %d may be %s in its step %d (%s) %s: nothing orders the two",
		verb, place(at), b.Rank, what, b.Step, Words(p.s.Programs[b.Rank][b.Step]), when)
	return refuse(p.s, a, []Event{b}, problem, p.how(a, b)...)
}

// how says how far each rank must have come for two events to happen at the same time.
func (p *proof) how(a, b Event) []string {
	w := newWalk(p.s)
	reached := make([]int32, len(p.s.Programs))
	for range max(a.Tile, b.Tile) {
		// Deadlock cannot come up: the walk that found the two went the same way.
		_ = w.runTile(func(e Event, _ *plan.Step) error {
			if e == a || e == b {
				for rank, n := range w.clocks[e.Rank] {
					reached[rank] = max(reached[rank], n)
				}
			}
			return nil
		})
	}
	lines := []string{"It happens when the ranks have come this far:"}
	for rank, n := range reached {
		switch program := p.s.Programs[rank]; {
		case n == 0:
			lines = append(lines, fmt.Sprintf("  rank %d: has done nothing yet", rank))
		default:
			e := w.event(rank, n)
			lines = append(lines, fmt.Sprintf("  rank %d: has done step %d (%s) for tile %d", rank, e.Step, Words(program[e.Step]), e.Tile))
		}
	}
	for _, e := range []Event{a, b} {
		lines = append(lines, fmt.Sprintf("Rank %d may then be in step %d (%s) for tile %d.", e.Rank, e.Step, Words(p.s.Programs[e.Rank][e.Step]), e.Tile))
	}
	return lines
}
