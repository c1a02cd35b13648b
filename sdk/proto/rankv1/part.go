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
	number, what, done uint64
	_                  [offCounters/8 - 3]uint64
	counters           [NumCounters][2]uint64
}

// Part is the part of a rank.
func (b *Board) Part(rank int) *Part { return (*Part)(unsafe.Pointer(b.rank(rank, 0))) }

// Begin is Board.Begin.
func (p *Part) Begin(number uint64, w What) {
	ordered.StoreTwo64(&p.number, number, &p.what, uint64(w)|number<<50)
}

// End is Board.End. With it the word at last becomes v.
func (p *Part) End(number uint64, last *uint64, v uint64) {
	ordered.StoreTwo64(&p.done, number, last, v)
}

// Count is Board.Count.
func (p *Part) Count(counter uint32, bytes uint64) {
	c := &p.counters[min(counter, NumCounters-1)]
	ordered.StoreTwo64(&c[0], c[0]+1, &c[1], c[1]+bytes) // no other writer
}
