package exec

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/schedule/allreduce"
)

func TestFind(t *testing.T) {
	memory := aligned(3 * 256)
	base := unsafe.Pointer(&memory[0])
	windows := []Window{{}, {Base: base, Stride: 128, Bytes: 100}, {Base: unsafe.Add(base, 384), Stride: 128, Bytes: 128}}
	for _, c := range []struct {
		at, bytes int64
		window    int
		offset    int64
	}{
		{128, 100, 1, 0},
		{128, 101, -1, 0},
		{127, 1, -1, 0},
		{200, 28, 1, 72},
		{200, 29, -1, 0},
		{228, 0, 1, 100},
		{229, 0, -1, 0},
		{0, 1, -1, 0},
		{256, 1, -1, 0},
		{512, 128, 2, 0},
		{600, 40, 2, 88},
		{600, 41, -1, 0},
	} {
		window, offset := Find(windows, 1, unsafe.Add(base, c.at), c.bytes)
		if window != c.window || offset != c.offset {
			t.Errorf("%d bytes at %d: window %d, offset %d; want %d, %d", c.bytes, c.at, window, offset, c.window, c.offset)
		}
	}
	if window, _ := Find(windows, 0, nil, 0); window != -1 {
		t.Errorf("nil lies in window %d", window)
	}
}

// TestBuffersMove: from call to call each rank's buffers lie elsewhere, in either window.
func TestBuffersMove(t *testing.T) {
	const world, part = 4, 64 << 10
	s := allreduce.Direct(world, 4096)
	memory := [2][]byte{aligned(world * part), aligned(world * part)}
	var windows []Window
	for _, m := range memory {
		windows = append(windows, Window{Base: unsafe.Pointer(&m[0]), Stride: part, Bytes: part})
	}
	newTeam(t, s, Watch{}).must(t, func(rank int, x *Schedule) error {
		x.SetWindows(windows)
		own := rand.New(rand.NewPCG(3, uint64(rank)))
		same := rand.New(rand.NewPCG(4, 4))
		for range 200 {
			bytes := int64(8 + same.IntN(part/16)*8)
			// src in the lower half of a part and dst in the upper one, so that they never overlap
			src := windows[own.IntN(2)].Part(rank)[own.IntN(int(part/2-bytes)/8)*8:][:bytes]
			dst := windows[own.IntN(2)].Part(rank)[part/2+own.IntN(int(part/2-bytes)/8)*8:][:bytes]
			c := class(collective.Int64, collective.Sum)
			for i := range bytes / 8 {
				putInt(c.DataType, src, int(i), int64(rank+1)*(i+bytes))
			}
			dawdle(own)
			if err := x.Run(callOf(c, dst, src)); err != nil {
				return err
			}
			for i := range bytes / 8 {
				if got, want := atInt(c.DataType, dst, int(i)), 10*(i+bytes); got != want {
					t.Errorf("rank %d, element %d of %d: %d, want %d", rank, i, bytes/8, got, want)
					return nil
				}
			}
		}
		return nil
	})
}

func TestUnregisteredBuffer(t *testing.T) {
	g := newTeam(t, allreduce.Direct(2, 4096), Watch{})
	for rank, err := range g.each(func(rank int, x *Schedule) error {
		return x.Run(callOf(class(collective.Float32, collective.Sum), aligned(64), aligned(64)))
	}) {
		if err == nil || !strings.Contains(err.Error(), "does not lie in registered memory") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestNonsenseFromAPeer: what a peer says of its buffers is not believed.
func TestNonsenseFromAPeer(t *testing.T) {
	for name, word := range map[string]uint64{"no such window": 7 << offsetBits, "beyond the end": 1 << 40, "just beyond": uint64(2*512<<10 - 60)} {
		t.Run(name, func(t *testing.T) {
			g := newTeam(t, allreduce.Direct(2, 4096), Watch{})
			liar := g.ranks[1].windows
			errs := g.each(func(rank int, x *Schedule) error {
				m := g.trial(rank)
				if rank == 1 {
					private := [2]uint64{} // its own words go nowhere; what stands in the shared ones is the lie
					shared := liar.words[1]
					liar.words[1] = &private
					atomic.StoreUint64(&shared[0], word)
					atomic.StoreUint64(&shared[1], word)
				}
				return x.Run(callOf(class(collective.Float32, collective.Sum), m[:64], m[64:128]))
			})
			if errs[0] == nil || !strings.Contains(errs[0].Error(), "rank 1 says that its buffer lies outside") {
				t.Errorf("rank 0: %v", errs[0])
			}
		})
	}
}
