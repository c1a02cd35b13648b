package agent

import (
	"testing"
	"time"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// TestLagOnABoard has three ranks at different places of their calls; rank 2 is the one that may be slow.
func TestLagOnABoard(t *testing.T) {
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
			l, behind := lagOf(placesFor(b, 2, gone), 2, at(3000), still)
			if behind != (c.call != 0) || behind && (l.call != c.call || !l.since.Equal(at(c.since))) {
				t.Errorf("lags %t in call %d since %s; want call %d since %s", behind, l.call, l.since.Sub(start), c.call, at(c.since).Sub(start))
			}
		})
	}
}

// TestLag is the rule alone, for rank 0 at 10 s, with a second until a rank is still.
func TestLag(t *testing.T) {
	const still = time.Second
	start := time.Unix(1_000_000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for name, c := range map[string]struct {
		places []place
		call   uint64 // 0: it does not lag
		since  float64
	}{
		"alone":                        {places: []place{{number: 3, done: 2, began: at(1)}}},
		"the first to come counts":     {places: []place{{number: 3, done: 3}, {number: 4, next: at(7)}, {number: 5, next: at(6)}, {number: 3, done: 3}}, call: 4, since: 6},
		"who is gone is not waited by": {places: []place{{number: 3, done: 3}, {number: 4, next: at(7), gone: true}}},
		"a peer waits, it does not":    {places: []place{{number: 3, done: 2, began: at(2)}, {number: 3, done: 2, waited: at(9.5)}}, call: 3, since: 2},
		"it waited until a while ago":  {places: []place{{number: 3, done: 2, began: at(2), waited: at(8)}, {number: 3, done: 2, waited: at(9.5)}}, call: 3, since: 8},
		"it waited in the call before": {places: []place{{number: 3, done: 2, began: at(2), waited: at(1)}, {number: 3, done: 2, waited: at(9.5)}}, call: 3, since: 2},
		"it waits":                     {places: []place{{number: 3, done: 2, began: at(2), waited: at(9.5)}, {number: 3, done: 2, waited: at(9.5)}}},
		"at the limit":                 {places: []place{{number: 3, done: 2, began: at(2), waited: at(9)}, {number: 3, done: 2, waited: at(9.5)}}, call: 3, since: 9},
		"no peer is seen to wait":      {places: []place{{number: 3, done: 2, began: at(2)}, {number: 3, done: 2, waited: at(9)}}},
		"the peers are through":        {places: []place{{number: 3, done: 2, began: at(2)}, {number: 3, done: 3, waited: at(9.5)}}},
		"it is through":                {places: []place{{number: 3, done: 3, began: at(2)}, {number: 3, done: 2, waited: at(9.5)}}},
		"its beginning is not known":   {places: []place{{number: 3, done: 2}, {number: 3, done: 2, waited: at(9.5)}}},
	} {
		l, behind := lagOf(c.places, 0, at(10), still)
		if behind != (c.call != 0) || behind && (l.call != c.call || !l.since.Equal(at(c.since))) {
			t.Errorf("%s: lags %t in call %d since %s; want call %d since %g s", name, behind, l.call, l.since.Sub(start), c.call, c.since)
		}
	}
}

// TestJudge is what is made of one look after another, with ten seconds until a rank is slow.
func TestJudge(t *testing.T) {
	const after = 10 * time.Second
	start := time.Unix(1_000_000, 0)
	known := func(call uint64, told time.Duration) *slow {
		return &slow{lag: lag{call: call, since: start}, told: told}
	}
	for name, c := range map[string]struct {
		was       *slow
		behind    bool
		call      uint64
		took      time.Duration
		slow, say bool
	}{
		"nobody waits":                   {took: time.Hour},
		"not for long":                   {behind: true, call: 3, took: after - 1},
		"for long":                       {behind: true, call: 3, took: after, slow: true, say: true},
		"still":                          {was: known(3, after), behind: true, call: 3, took: 2*after - 1, slow: true},
		"twice as long as was told":      {was: known(3, after), behind: true, call: 3, took: 2 * after, slow: true, say: true},
		"it has come":                    {was: known(3, after), call: 3, took: after},
		"slow again, in a later call":    {was: known(3, after), behind: true, call: 4, took: after},
		"it waits itself since a moment": {was: known(3, after), behind: true, call: 3, took: time.Second},
	} {
		isSlow, say := judge(c.was, lag{call: c.call, since: start}, c.behind, start.Add(c.took), after)
		if isSlow != c.slow || say != c.say {
			t.Errorf("%s: slow %t, told %t; want %t, %t", name, isSlow, say, c.slow, c.say)
		}
	}
}
