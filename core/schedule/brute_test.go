package schedule_test

import (
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// brute executes a schedule for two or three ranks in every order in which it can be executed, with numbers in place of
// proofs: it shares nothing with Prove but the definition of the instructions. A step is not atomic: it reads source by
// source, then writes.
type brute struct {
	s       *plan.Schedule
	world   int
	view    []int // chunk that the element lies in, by tile
	inPlace bool
	direct  bool   // ranks read one another's callers' buffers
	ops     [][]op // by rank, through all tiles
	seen    map[bruteState]bool
	numbers map[number]uint16
	values  []number
}

// number is an element's value under sum and under avg of integers, which truncates: dividing early is seen.
type number struct{ sum, avg int64 }

// op is the part of a step that happens at once.
type op struct {
	kind   opKind
	tile   int
	at     int // cell of a slot, or cellIn or cellOut
	owner  int // cellIn, cellOut: whose
	first  bool
	final  bool
	signal int // opSignal, opWait
	rank   int // opWait: whose
	want   int // opWait: tile
}

type opKind uint8

const (
	opRead opKind = iota
	opWrite
	opSignal
	opWait
	opBegin
	opEnd
)

const (
	cellIn  = -1
	cellOut = -2
	maxOps  = 24 // cells
)

// bruteState is all that the future depends on. Values are indices into brute.values.
type bruteState struct {
	pc      [3]uint16
	cells   [maxOps]uint16
	acc     [3]uint16
	in, out [3]uint16 // callers' buffers; garbage while no call is in progress
}

const garbage = 0

// bruteForce says how the schedule can go wrong on one element, "" if it cannot.
func bruteForce(s *plan.Schedule, view []int, inPlace bool) string {
	b := &brute{s: s, world: len(s.Programs), view: view, inPlace: inPlace, direct: s.Direct(), seen: map[bruteState]bool{}, numbers: map[number]uint16{}}
	b.id(number{-1 << 50, -1 << 50})
	for rank := range s.Programs {
		b.ops = append(b.ops, b.compile(rank))
	}
	if b.world*s.Slots*s.Buffers > maxOps {
		return "too many cells"
	}
	return b.explore(bruteState{})
}

// views are elements worth looking at: those that stay in a chunk, and those that change between two because tiles differ
// in length, as far as any length has it so.
func views(s *plan.Schedule) [][]int {
	lines := min(int(s.TileBytes/64), 2*s.Chunks)
	pairs := map[[2]int]bool{}
	for at := range lines {
		var chunks []int
		for n := at + 1; n <= lines; n++ {
			per := (n*64 + s.Chunks - 1) / s.Chunks
			per = (per + 63) / 64
			chunks = append(chunks, at/per)
		}
		for _, a := range chunks {
			for _, b := range chunks {
				pairs[[2]int{a, b}] = true
			}
		}
	}
	var all [][]int
	for pair := range pairs {
		var view []int
		for tile := range s.Buffers + 2 {
			if tile < s.Buffers {
				view = append(view, pair[0])
			} else {
				view = append(view, pair[1])
			}
		}
		all = append(all, view)
	}
	return all
}

func (b *brute) id(n number) uint16 {
	if id, ok := b.numbers[n]; ok {
		return id
	}
	id := uint16(len(b.values))
	b.numbers[n] = id
	b.values = append(b.values, n)
	return id
}

// input is what a rank puts in: a digit of its own to the base 5, so that twice is seen.
func (b *brute) input(rank, tile int) number {
	v := int64(1)
	for range rank + 3*tile {
		v *= 5
	}
	return number{v, v}
}

func (b *brute) compile(rank int) []op {
	var ops []op
	for tile, chunk := range b.view {
		ops = append(ops, op{kind: opBegin, tile: tile})
		at := func(o op, p plan.Place) op {
			switch p.Where {
			case plan.In:
				o.at, o.owner = cellIn, rank
			case plan.Out:
				o.at, o.owner = cellOut, rank
			case plan.PeerIn:
				o.at, o.owner = cellIn, p.Rank
			case plan.PeerOut:
				o.at, o.owner = cellOut, p.Rank
			default:
				o.at = (p.Rank*b.s.Slots+p.Slot)*b.s.Buffers + tile%b.s.Buffers
			}
			return o
		}
		for _, t := range b.s.Programs[rank] {
			switch {
			case t.Kind == plan.Signal:
				ops = append(ops, op{kind: opSignal, tile: tile, signal: t.Signal})
			case t.Kind == plan.Wait:
				ops = append(ops, op{kind: opWait, tile: tile, signal: t.Signal, rank: t.Rank, want: tile - t.Lag})
			case t.Chunk == plan.AllChunks || t.Chunk == chunk:
				for i, src := range t.Srcs {
					ops = append(ops, at(op{kind: opRead, tile: tile, first: i == 0}, src))
				}
				ops = append(ops, at(op{kind: opWrite, tile: tile, final: t.Final}, t.Dst))
			}
		}
		ops = append(ops, op{kind: opEnd, tile: tile})
	}
	return ops
}

// private reports whether an op commutes with everything that other ranks may do meanwhile. A signal does: it only
// lets others go on. So does a wait that has ended.
func (b *brute) private(o op) bool {
	switch o.kind {
	case opSignal, opWait:
		return true
	case opBegin, opEnd:
		return !b.direct
	}
	return o.at < 0 && !b.direct
}

// signalled reports whether a rank has given a signal for a tile or a later one.
func (b *brute) signalled(st *bruteState, o op) bool {
	if o.want < 0 {
		return true
	}
	for _, past := range b.ops[o.rank][:st.pc[o.rank]] {
		if past.kind == opSignal && past.signal == o.signal && past.tile >= o.want {
			return true
		}
	}
	return false
}

func (b *brute) explore(st bruteState) string {
	// Private ops first, one after the other: no order with others' ops has to be tried.
	for again := true; again; {
		again = false
		for rank := range b.world {
			for int(st.pc[rank]) < len(b.ops[rank]) {
				o := b.ops[rank][st.pc[rank]]
				if !b.private(o) || o.kind == opWait && !b.signalled(&st, o) {
					break
				}
				if wrong := b.execute(&st, rank, o); wrong != "" {
					return wrong
				}
				again = true
			}
		}
	}
	if b.seen[st] {
		return ""
	}
	b.seen[st] = true
	done, stuck := true, true
	for rank := range b.world {
		if int(st.pc[rank]) == len(b.ops[rank]) {
			continue
		}
		done = false
		o := b.ops[rank][st.pc[rank]]
		if o.kind == opWait {
			continue
		}
		stuck = false
		next := st
		if wrong := b.execute(&next, rank, o); wrong != "" {
			return wrong
		}
		if wrong := b.explore(next); wrong != "" {
			return wrong
		}
	}
	if stuck && !done {
		return "deadlock"
	}
	return ""
}

func (b *brute) execute(st *bruteState, rank int, o op) string {
	st.pc[rank]++
	switch o.kind {
	case opRead:
		v := b.values[b.load(st, o)]
		if !o.first {
			a := b.values[st.acc[rank]]
			v = number{a.sum + v.sum, a.avg + v.avg}
		}
		st.acc[rank] = b.id(v)
	case opWrite:
		v := b.values[st.acc[rank]]
		if o.final {
			v.avg /= int64(b.world)
		}
		st.acc[rank] = garbage
		if o.at == cellOut {
			st.out[rank] = b.id(v)
		} else {
			st.cells[o.at] = b.id(v)
		}
	case opBegin:
		st.in[rank] = b.id(b.input(rank, o.tile))
	case opEnd:
		var want number
		for r := range b.world {
			want.sum += b.input(r, o.tile).sum
		}
		want.avg = want.sum / int64(b.world)
		if got := b.values[st.out[rank]]; got != want {
			return fmt.Sprintf("rank %d tile %d: %v, want %v", rank, o.tile, got, want)
		}
		st.in[rank], st.out[rank] = garbage, garbage // they are the caller's again
	}
	return ""
}

func (b *brute) load(st *bruteState, o op) uint16 {
	switch {
	case o.at == cellIn && b.inPlace && st.out[o.owner] != garbage:
		return st.out[o.owner]
	case o.at == cellIn, o.at == cellOut && b.inPlace && st.out[o.owner] == garbage:
		return st.in[o.owner]
	case o.at == cellOut:
		return st.out[o.owner]
	}
	return st.cells[o.at]
}
