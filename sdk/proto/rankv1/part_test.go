package rankv1

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
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

// TestDiffer finds the first call that ranks made differently, of those that are recorded, wherever they are now.
func TestDiffer(t *testing.T) {
	device := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	captured, host := device, device
	captured.Captured, host.Memory = true, collective.Host
	type call struct {
		class collective.Class
		bytes int64 // -1 for a refusal
	}
	same := []call{{device, 4}, {device, 8}, {captured, 8}}
	for name, c := range map[string]struct {
		theirs []call
		want   uint64
	}{
		"alike": {same, 0}, "behind": {same[:1], 0}, "ahead": {append(slices.Clone(same), call{host, 4}), 0}, "none yet": {nil, 0},
		"size":     {[]call{{device, 4}, {device, 12}, {device, 12}}, 2},
		"op":       {[]call{{collective.Class{Memory: collective.CUDA, Op: collective.Max}, 4}, {device, 8}, {captured, 8}}, 1},
		"refused":  {[]call{{device, 4}, {device, -1}, {captured, 8}}, 2},
		"captured": {[]call{{device, 4}, {captured, 8}, {captured, 8}}, 2},
		"on host":  {[]call{{host, 4}, {device, 8}}, 1},
	} {
		b := NewBoard(make([]byte, BoardSize(3)), 3)
		b.SetClock(time.Unix(1, 0))
		for rank, calls := range [][]call{same, same, c.theirs} {
			for i, x := range calls {
				if number := uint64(i + 1); x.bytes < 0 {
					b.Reject(rank, number)
				} else {
					b.Begin(rank, number, x.class.Index(), x.bytes)
					b.End(rank, number)
				}
			}
		}
		number, peer, found := b.Differ(0)
		if number != c.want || found != (c.want > 0) || found && peer != 2 {
			t.Errorf("%s: call %d of rank %d (%v), want %d of rank 2", name, number, peer, found, c.want)
		}
	}
	b := NewBoard(make([]byte, BoardSize(2)), 2)
	b.Begin(0, 1, device.Index(), 4)
	b.Begin(1, 1, captured.Index(), 4) // neither is through: one may yet be found to be captured
	for n := uint64(2); n <= 200; n++ {
		b.Begin(0, n, device.Index(), 4)
		b.Begin(1, n, device.Index(), 4)
	}
	if n, _, found := b.Differ(0); found {
		t.Errorf("call %d differs", n)
	}
	b.Begin(0, 201, device.Index(), 8)
	b.Begin(1, 201, device.Index(), 4)
	if n, _, _ := b.Differ(1); n != 201 {
		t.Errorf("call %d differs, want 201", n)
	}
}
