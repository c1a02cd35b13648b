package rankv1

import (
	"testing"
	"time"
)

// TestPart: what a rank writes through its part is what others read on the board.
func TestPart(t *testing.T) {
	const world, rank, class, bytes = 3, 1, 77, 4096
	b := NewBoard(make([]byte, BoardSize(world)), world)
	p := b.Part(rank)
	b.SetClock(time.Unix(1, 0))
	var busy uint64 = 1
	for number := uint64(1); number <= 1<<14+1; number++ { // the packed number comes round
		p.Begin(number, WhatOf(class, bytes))
		if got := b.Begun(rank); got.Number != number || got.Done != number-1 || got.Class.Index() != class || got.Bytes != bytes || got.Rejected {
			t.Fatalf("call %d is read as %+v", number, got)
		}
		p.Count(number, 5, bytes)
		p.Count(number, NumCounters+7, 1)
		p.End(number, &busy, 0)
		if got := b.Begun(rank); got.Done != number || busy != 0 {
			t.Fatalf("after call %d the board has %+v, the last word is %d", number, got, busy)
		}
		busy = 1
	}
	if all := b.Records(rank); len(all) != 64 || all[63].Number != 1<<14+1 || all[63].Bytes != bytes || !all[63].Ended || all[63].Counter != NumCounters-1 || all[63].Class.Index() != class {
		t.Errorf("the recorder's last is %+v", all[len(all)-1])
	}
	for counter, want := range map[uint32]uint64{5: bytes, NumCounters - 1: 1, 6: 0} {
		if calls, total := b.Counter(rank, counter); total != want*(1<<14+1) || want != 0 && calls != 1<<14+1 {
			t.Errorf("counter %d has %d calls, %d bytes", counter, calls, total)
		}
	}
	for _, other := range []int{0, 2} {
		if got := b.Begun(other); got.Number != 0 {
			t.Errorf("rank %d is said to have begun %+v", other, got)
		}
	}
}
