package rank

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// TestLook is the rule alone: what rank 0 of three makes of a look after a time in which it has seen the same, with a deadline of
// ten seconds.
func TestLook(t *testing.T) {
	cuda := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}
	captured, other := cuda, cuda
	captured.Captured, other.Op = true, collective.Max
	at := func(number, done uint64) rankv1.Begun {
		return rankv1.Begun{Number: number, Done: done, Class: cuda, Bytes: 64}
	}
	but := func(b rankv1.Begun, f func(*rankv1.Begun)) rankv1.Begun { f(&b); return b }
	const soon, late = time.Second, 11 * time.Second
	for name, c := range map[string]struct {
		begun  []rankv1.Begun
		differ int // peer that a recorded call differs from; 0 for none
		before deviceWatch
		after  time.Duration
		want   trouble
	}{
		"nothing was called":         {begun: []rankv1.Begun{{}, at(9, 9), at(9, 9)}, after: late},
		"of host memory":             {begun: []rankv1.Begun{{Number: 3}, at(9, 9), at(1, 1)}, after: late},
		"all alike":                  {begun: []rankv1.Begun{at(3, 3), at(3, 3), at(3, 3)}, after: late},
		"peers are ahead":            {begun: []rankv1.Begun{at(3, 3), at(4, 4), at(9, 9)}, after: late},
		"a recorded call differs":    {begun: []rankv1.Begun{at(3, 3), at(4, 4), at(3, 3)}, differ: 1, want: trouble{2, 1, differs}},
		"records were compared":      {begun: []rankv1.Begun{at(3, 3), at(4, 4), at(3, 3)}, differ: 1, before: deviceWatch{looked: 10}},
		"another op":                 {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(3, 2), func(b *rankv1.Begun) { b.Class = other })}, want: trouble{3, 2, differs}},
		"another size":               {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(3, 2), func(b *rankv1.Begun) { b.Bytes = 32 })}, want: trouble{3, 2, differs}},
		"another op, in a call past": {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(4, 3), func(b *rankv1.Begun) { b.Class = other })}},
		"not known to be captured":   {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(3, 2), func(b *rankv1.Begun) { b.Class = captured })}, after: soon},
		"captured, for long":         {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(3, 3), func(b *rankv1.Begun) { b.Class = captured })}, after: late, want: trouble{3, 2, isLate}},
		"one is behind":              {begun: []rankv1.Begun{at(3, 3), at(2, 2), at(3, 3)}, after: soon},
		"one is behind for long":     {begun: []rankv1.Begun{at(3, 3), at(2, 2), at(3, 3)}, after: late, want: trouble{3, 1, isLate}},
		"one stays in the call":      {begun: []rankv1.Begun{at(3, 3), at(3, 3), at(3, 2)}, after: late, want: trouble{3, 2, isLate}},
		"all stay in the call":       {begun: []rankv1.Begun{at(3, 2), at(3, 2), at(3, 2)}, after: late},
		"one has left":               {begun: []rankv1.Begun{at(3, 3), at(2, 2), but(at(2, 2), func(b *rankv1.Begun) { b.State = rankv1.Left })}, want: trouble{3, 2, isGone}},
		"one has left after it":      {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(3, 3), func(b *rankv1.Begun) { b.State = rankv1.Lost })}, after: late},
		"one refused it just now":    {begun: []rankv1.Begun{at(3, 2), at(3, 2), but(at(3, 3), func(b *rankv1.Begun) { b.Refused, b.Rejected = 3, true })}},
		"one refused it before":      {begun: []rankv1.Begun{at(3, 2), at(3, 2), but(at(3, 3), func(b *rankv1.Begun) { b.Refused, b.Rejected = 3, true })}, before: deviceWatch{doubt: 3}, want: trouble{3, 2, differs}},
		"refused what is through":    {begun: []rankv1.Begun{at(3, 3), at(3, 3), but(at(4, 4), func(b *rankv1.Begun) { b.Refused = 3 })}, want: trouble{3, 2, differs}},
	} {
		w, now := c.before, time.Unix(1_000_000, 0)
		l := look{begun: c.begun, differ: func() (uint64, int, bool) { return 2, c.differ, c.differ != 0 }}
		got := w.at(l, now, 10*time.Second)
		for waited := time.Duration(0); got == (trouble{}) && waited < c.after; waited += watchEvery {
			now = now.Add(watchEvery)
			got = w.at(l, now, 10*time.Second)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLookWaitsAnew for every call, and does not count the time in which this process was stopped.
func TestLookWaitsAnew(t *testing.T) {
	cuda := collective.Class{Memory: collective.CUDA, Op: collective.Sum}
	var w deviceWatch
	now := time.Unix(1_000_000, 0)
	see := func(after time.Duration, own, peer uint64) trouble {
		now = now.Add(after)
		return w.at(look{begun: []rankv1.Begun{{Number: own, Done: own, Class: cuda}, {Number: peer, Done: peer, Class: cuda}}, differ: func() (uint64, int, bool) { return 0, 0, false }}, now, 3*time.Second)
	}
	for i, step := range []struct {
		after     time.Duration
		own, peer uint64
		late      bool
	}{
		{0, 5, 4, false},
		{time.Hour, 5, 4, false}, // this process was stopped: a second counts
		{time.Second, 5, 4, false},
		{time.Second, 6, 4, false}, // another call: from the beginning
		{time.Second, 6, 4, false},
		{time.Second, 6, 6, false}, // it has come
		{time.Second, 7, 6, false},
		{time.Second, 7, 6, false},
		{time.Second, 7, 6, false},
		{time.Second, 7, 6, false}, // three seconds are not more than three
		{time.Millisecond, 7, 6, true},
	} {
		if got := see(step.after, step.own, step.peer); (got.what == isLate) != step.late || got.what != 0 && got.what != isLate {
			t.Errorf("look %d: %+v, want late %t", i, got, step.late)
		}
	}
}

// TestDisagreementWithOneNotThere: a rank that is not there so far is not said to have called anything else.
func TestDisagreementWithOneNotThere(t *testing.T) {
	x := newGatedAmong(t, 4)
	sum := collective.Class{Memory: collective.CUDA, Op: collective.Sum}.Index()
	x.board.SetClock(time.Now())
	for rank := range 3 {
		x.board.Begin(rank, 1, sum, 64)
		x.board.End(rank, 1)
	}
	x.board.Begin(0, 2, sum, 64)
	x.board.Begin(1, 2, sum, 32)
	x.group.compare(time.Now())
	want := "ranks disagree about all-reduce 2: rank 0: all-reduce 2 of 64 bytes, cuda float32 sum eager; rank 1: all-reduce 2 of 32 bytes, " +
		"cuda float32 sum eager; rank 2: no further than all-reduce 1 of 64 bytes, cuda float32 sum eager; rank 3: no all-reduce yet"
	if err := x.group.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestRefusedByAll has every rank refuse a call that each has begun first, as of a capture whose class is not decided: no rank takes
// the moment in which only a peer has for a disagreement. A call that goes on though a peer has refused it is one.
func TestRefusedByAll(t *testing.T) {
	x := newGatedAmong(t, 2)
	class := collective.Class{Memory: collective.CUDA, Op: collective.Sum}.Index()
	now := time.Now()
	look := func(want string) {
		t.Helper()
		now = now.Add(watchEvery)
		x.group.compare(now)
		err := x.group.Err()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("error %v, want %q", err, want)
		}
	}
	x.board.SetClock(now)
	for number := uint64(1); number <= 2; number++ {
		x.board.Begin(0, number, class, 64)
		x.board.Reject(1, number)
		look("")
		x.board.Reject(0, number)
		look("")
	}
	x.board.Begin(0, 3, class, 64)
	x.board.Reject(1, 3)
	look("")
	look("ranks disagree about all-reduce 3: rank 0: all-reduce 3 of 64 bytes, cuda float32 sum eager; rank 1: all-reduce 3 with arguments that it refused")
	if e := new(GroupError); !errors.As(x.group.Err(), &e) {
		t.Errorf("it is a %T", x.group.Err())
	}
}

// TestRefusedByOne is told as soon as the call is through.
func TestRefusedByOne(t *testing.T) {
	x := newGatedAmong(t, 2)
	x.board.SetClock(time.Now())
	x.board.Begin(0, 1, collective.Class{Memory: collective.CUDA, Op: collective.Sum}.Index(), 64)
	x.board.End(0, 1)
	x.board.Reject(1, 1)
	x.group.compare(time.Now())
	if err := x.group.Err(); err == nil || !strings.Contains(err.Error(), "ranks disagree about all-reduce 1: ") {
		t.Error(err)
	}
}
