package agent

import (
	"testing"
	"time"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// TestLag has three ranks at different places of their calls; rank 2 is the one that may be slow.
func TestLag(t *testing.T) {
	const still = time.Second
	start := time.Unix(1_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		happens func(b *rankv1.Board, clock func(ms int))
		gone    []bool
		call    uint64 // 0: it does not lag
		since   int
	}{
		"nobody has begun": {happens: func(*rankv1.Board, func(int)) {}},
		"all are idle": {happens: func(b *rankv1.Board, _ func(int)) {
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
				b.End(r, 1)
			}
		}},
		"it has not begun": {happens: func(b *rankv1.Board, clock func(int)) {
			clock(100)
			b.Begin(1, 1, 0, 8)
			clock(300)
			b.Begin(0, 1, 0, 8)
		}, call: 1, since: 100},
		"the others wait in the next call": {happens: func(b *rankv1.Board, clock func(int)) {
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
			}
			clock(500)
			for r := range 2 {
				b.End(r, 1)
				b.Begin(r, 2, 0, 8)
			}
		}, call: 2, since: 500},
		"the others are many calls ahead, on a stream": {happens: func(b *rankv1.Board, clock func(int)) {
			for call := range 200 {
				clock(call)
				b.Begin(0, uint64(call+1), 0, 8)
				b.End(0, uint64(call+1))
			}
		}, call: 1, since: 200 - 64},
		"it is stopped in the call": {happens: func(b *rankv1.Board, clock func(int)) {
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
				b.Waits(r)
			}
			clock(250)
			b.Waits(2)
			clock(2500)
			b.Waits(0)
		}, call: 1, since: 250},
		"it is busy with its part": {happens: func(b *rankv1.Board, clock func(int)) {
			clock(40)
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
			}
			clock(2500)
			b.Waits(1)
		}, call: 1, since: 40},
		"it waits as the others do, say for a worker": {happens: func(b *rankv1.Board, clock func(int)) {
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
			}
			clock(2500)
			for r := range 3 {
				b.Waits(r)
			}
		}},
		"none is seen to wait: the class is being decided": {happens: func(b *rankv1.Board, _ func(int)) {
			for r := range 3 {
				b.Begin(r, 1, 0, 8)
			}
		}},
		"who is ahead has left": {happens: func(b *rankv1.Board, _ func(int)) { b.Begin(0, 1, 0, 8) }, gone: []bool{true, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b := rankv1.NewBoard(make([]byte, rankv1.BoardSize(3)), 3)
			b.SetClock(start)
			c.happens(b, func(ms int) { b.SetClock(at(ms)) })
			gone := c.gone
			if gone == nil {
				gone = make([]bool, 3)
			}
			l, behind := lagOf(b, 2, gone, at(3000), still)
			if behind != (c.call != 0) || behind && (l.call != c.call || !l.since.Equal(at(c.since))) {
				t.Errorf("lags %t in call %d since %s; want call %d since %s", behind, l.call, l.since.Sub(start), c.call, at(c.since).Sub(start))
			}
		})
	}
}
