package rankv1

import (
	"unsafe"

	"github.com/weir-project/weir/sdk/internal/ordered"
)

// What is what a call does, without its number.
type What uint64

// WhatOf packs a call of a class.
func WhatOf(class int, bytes int64) What { return What(packWhat(0, false, class, bytes)) }

// Part is a rank's own part of a board, for the rank itself, where the address of each word is known. It is laid out like
// the board.
type Part struct {
	number, what, done, _, _, clock uint64
	_                               [offCounters/8 - 6]uint64
	counters                        [NumCounters][2]uint64
	_                               [(boardPage-offCounters)/8 - 2*NumCounters]uint64
	records                         [numRecords][recordSize / 8]uint64 // the flight recorder
}

// Part is the part of a rank.
func (b *Board) Part(rank int) *Part { return (*Part)(unsafe.Pointer(b.rank(rank, 0))) }

// Begin is Board.Begin.
func (p *Part) Begin(number uint64, w What) {
	what := uint64(w) | number<<50
	p.recordBegin(number, what)
	ordered.StoreTwo64(&p.number, number, &p.what, what)
}

// End is Board.End. With it the word at last becomes v.
func (p *Part) End(number uint64, last *uint64, v uint64) {
	p.recordEnd(number)
	ordered.StoreTwo64(&p.done, number, last, v)
}

// Count is Board.Count.
func (p *Part) Count(number uint64, counter uint32, bytes uint64) {
	p.recordBy(number, counter)
	c := &p.counters[min(counter, NumCounters-1)]
	ordered.StoreTwo64(&c[0], c[0]+1, &c[1], c[1]+bytes) // no other writer
}
