package exec

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/await"
)

func TestMismatch(t *testing.T) {
	base := Call{Class: class(collective.Float32, collective.Sum), Bytes: 1024}
	for name, change := range map[string]func(*Call){
		"shorter": func(c *Call) { c.Bytes = 4 },
		"longer":  func(c *Call) { c.Bytes = 4096 },
		"empty":   func(c *Call) { c.Bytes = 0 },
		"type":    func(c *Call) { c.Class.DataType = collective.Int32 },
		"op":      func(c *Call) { c.Class.Op = collective.Max },
	} {
		for algorithm, build := range algorithms {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				const world, odd = 4, 2
				g := newTeam(t, build(world, 256), Watch{Deadline: await.For(await.Plenty)})
				out := make([][]byte, world)
				errs := g.each(func(rank int, x *Schedule) error {
					c := base
					if rank == odd {
						change(&c)
					}
					src := aligned(c.Bytes)
					fill(src, []byte{1})
					out[rank] = aligned(c.Bytes)
					return x.Run(callOf(c.Class, out[rank], src))
				})
				for rank, err := range errs {
					var m *Mismatch
					if !errors.As(err, &m) {
						t.Fatalf("rank %d: %v, want a mismatch", rank, err)
					}
					if (m.Rank == odd) == (rank == odd) {
						t.Errorf("rank %d blames rank %d, but rank %d was the odd one", rank, m.Rank, odd)
					}
					if !bytes.Equal(out[rank], make([]byte, len(out[rank]))) {
						t.Errorf("rank %d used the data of a call that did not match", rank)
					}
					if again := g.ranks[rank].Run(callOf(base.Class, aligned(4), aligned(4))); !errors.Is(again, err) {
						t.Errorf("rank %d: the call after the failed one gave %v", rank, again)
					}
				}
			})
		}
	}
}

func TestAbort(t *testing.T) {
	var g *team
	g = newTeam(t, flat(2, 64), Watch{Deadline: await.For(await.Plenty), Stalled: func() error { // asked by a rank that waits
		atomic.StoreUint32(&g.abort, 1)
		return nil
	}})
	if err := g.ranks[0].Run(callOf(class(collective.Int8, collective.Sum), aligned(8), aligned(8))); !errors.Is(err, ErrAborted) {
		t.Errorf("a waiting rank got %v", err)
	}
	if err := g.ranks[1].Run(callOf(class(collective.Int8, collective.Sum), aligned(8), aligned(8))); !errors.Is(err, ErrAborted) {
		t.Errorf("a rank that came later got %v", err)
	}
}

func TestDeadline(t *testing.T) {
	for _, world := range []int{2, 9} {
		g := newTeam(t, scattered(world, 64), Watch{Deadline: await.Lapse(5 * time.Millisecond)})
		g.ranks[0].watch.Yield = world == 9 // spin in one case, yield in the other
		err := g.ranks[0].Run(callOf(class(collective.Int8, collective.Sum), aligned(8), aligned(8)))
		var late *Late
		if !errors.As(err, &late) || late.Rank != 1 || late.Signal != 0 {
			t.Errorf("%d ranks: %v, want rank 1 late at signal 0", world, err)
		}
	}
}

func TestStalled(t *testing.T) {
	gone := errors.New("rank 1 has died")
	asked := 0
	g := newTeam(t, flat(2, 64), Watch{Stalled: func() error {
		if asked++; asked == 3 {
			return gone
		}
		return nil
	}})
	if err := g.ranks[0].Run(callOf(class(collective.Int8, collective.Sum), aligned(8), aligned(8))); !errors.Is(err, gone) || asked != 3 {
		t.Errorf("%v after %d questions", err, asked)
	}
}

func TestImpossibleCalls(t *testing.T) {
	g := newTeam(t, flat(1, 64), Watch{})
	good := callOf(class(collective.Float32, collective.Sum), aligned(8), aligned(8))
	for name, change := range map[string]func(*Call){
		"half an element": func(c *Call) { c.Bytes = 6 },
		"negative":        func(c *Call) { c.Bytes = -4 },
		"no source":       func(c *Call) { c.Src = nil },
		"no destination":  func(c *Call) { c.Dst = nil },
		"type":            func(c *Call) { c.Class.DataType = 99 },
		"op":              func(c *Call) { c.Class.Op = 99 },
		"GPU memory":      func(c *Call) { c.Class.Memory = collective.CUDA },
	} {
		c := good
		change(&c)
		if g.ranks[0].Run(c) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := g.ranks[0].Run(good); err != nil {
		t.Errorf("a good call after refused ones: %v", err)
	}
}

func TestNewScheduleRefuses(t *testing.T) {
	s := flat(2, 64)
	shared := aligned(s.SharedBytes() + 8)
	bad := flat(2, 64)
	bad.TileBytes = 65
	for name, try := range map[string]func() (*Schedule, error){
		"a rank that is not there": func() (*Schedule, error) { return NewSchedule(s, 2, shared, Watch{}) },
		"a negative rank":          func() (*Schedule, error) { return NewSchedule(s, -1, shared, Watch{}) },
		"too little memory":        func() (*Schedule, error) { return NewSchedule(s, 0, shared[:s.SharedBytes()-1], Watch{}) },
		"odd memory":               func() (*Schedule, error) { return NewSchedule(s, 0, shared[1:], Watch{}) },
		"an invalid plan":          func() (*Schedule, error) { return NewSchedule(bad, 0, shared, Watch{}) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
