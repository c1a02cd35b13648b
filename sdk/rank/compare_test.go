package rank

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
)

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
