package main

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/await"
)

const (
	faultVersion  = 1
	faultInFlight = 2
	faultSize     = 3

	asked = 28 // offset of weir_control.asked
)

// alone is a trial of two ranks whose calls are launched one by one.
type alone struct {
	*trial
	count int64
}

func newAlone(t testing.TB, b backend.Backend, count int64) *alone {
	t.Helper()
	return &alone{newTrial(openGPU(t), b, "", 2), count}
}

func (a *alone) out(r *rank) cuda.Pointer { return a.arena[r.rank] + cuda.Pointer(a.most+256) }

// start launches a rank's part in a float32 call, with what change makes of it, and pre-fills its output with zeros.
func (a *alone) start(r *rank, s cuda.Stream, count int64, change func(*call)) {
	a.t.Helper()
	a.check(a.FillAsync(a.out(r), 0, a.most, s))
	row := a.row(collective.Float32, min(count*4, a.most))
	c := a.call(r, collective.Float32, count, a.arena[r.rank], a.out(r))
	if change != nil {
		change(&c)
	}
	launch(a.gpu, a.gpu.function(a.source, row.Function), row.Grid, row.Block, s, c)
}

// ends waits for a stream to come to its end, which it must.
func (a *alone) ends(s cuda.Stream) {
	a.t.Helper()
	if !a.isDoneWithin(s, await.For(10*time.Second)) {
		for _, r := range a.ranks {
			r.abort()
		}
		a.t.Fatal("still waiting")
	}
}

func (a *alone) isDoneWithin(s cuda.Stream, limit time.Duration) bool {
	a.t.Helper()
	return await.Poll(limit, func() bool { return must(a.StreamDone(s))(a.t) })
}

// isNaN fails unless every element of a rank's output is the NaN that kernels fill with.
func (a *alone) isNaN(r *rank) {
	a.t.Helper()
	got := make([]byte, a.count*4)
	a.check(a.ToHost(got, a.out(r)))
	if !bytes.Equal(got, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0x7f}, int(a.count))) {
		a.t.Errorf("output of rank %d is not all NaN: it begins %x", r.rank, got[:16])
	}
}

// TestGPUAbort: a rank whose peer does not come says whom it waits for, leaves when told, and so do later launches.
func TestGPUAbort(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.Info().Name, func(t *testing.T) {
			a := newAlone(t, b, 5000)
			r := a.ranks[0]
			a.preset(7)
			a.start(r, r.stream, a.count, nil)
			if a.isDoneWithin(r.stream, await.Lapse(200*time.Millisecond)) {
				t.Fatal("done without its peer")
			}
			if got := r.waiting(); got != 7<<32|2 {
				t.Errorf("waiting is %#x, want call 7 and rank 1", got)
			}
			r.abort()
			a.ends(r.stream)
			a.isNaN(r)
			a.start(r, r.stream, a.count, nil)
			a.ends(r.stream)
			a.isNaN(r)
			if r.fault() != 0 {
				t.Errorf("fault %d", r.fault())
			}
		})
	}
}

// TestGPUAsks: however large a launch, one thread of it at a time asks the host. Were it more, a call that comes late would make
// those after it late (sdk/kernel/weir_kernel.h, weir_wait).
func TestGPUAsks(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.Info().Name, func(t *testing.T) {
			a := newAlone(t, b, 0)
			a.count = a.most / 4
			a.source.variant = "WEIR_COUNT_ASKS"
			r := a.ranks[0]
			a.start(r, r.stream, a.count, nil)
			if a.isDoneWithin(r.stream, 200*time.Millisecond) {
				t.Fatal("done without its peer")
			}
			a.start(a.ranks[1], a.ranks[1].stream, a.count, nil)
			a.ends(r.stream)
			control := make([]byte, 128)
			a.check(a.ToHost(control, r.control))
			now, most := binary.NativeEndian.Uint32(control[asked:]), binary.NativeEndian.Uint32(control[asked+4:])
			if now != 0 || most != 1 {
				t.Errorf("%d threads ask now, and %d did at a time; want 0 and 1", now, most)
			}
			if r.waiting() != 0 {
				t.Errorf("waiting is %#x after the end", r.waiting())
			}
			if r.fault() != 0 {
				t.Errorf("fault %d", r.fault())
			}
		})
	}
}

// TestGPUFaults: launches that cannot be right are reported and change nobody's data.
func TestGPUFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*call)
		want   uint32
	}{
		{"version", func(c *call) { c.version = 2 }, faultVersion},
		{"size", func(c *call) { c.bufferBytes = 4096 }, faultSize},
		{"no buffer", func(c *call) { c.bufferBytes = 0 }, faultSize},
	} {
		for _, b := range backends() {
			t.Run(c.name+"/"+b.Info().Name, func(t *testing.T) {
				a := newAlone(t, b, 5000)
				r := a.ranks[0]
				a.start(r, r.stream, a.count, c.change)
				a.ends(r.stream)
				a.isNaN(r)
				if got := r.fault(); got != c.want {
					t.Errorf("fault %d, want %d", got, c.want)
				}
			})
		}
	}
}

// TestGPUInFlight: a second launch of a rank while one runs is found out, by another id or the same.
func TestGPUInFlight(t *testing.T) {
	for _, b := range backends() {
		for name, sameID := range map[string]bool{"another id": false, "the same id": true} {
			t.Run(b.Info().Name+"/"+name, func(t *testing.T) {
				a := newAlone(t, b, 5000)
				r := a.ranks[0]
				a.start(r, r.stream, a.count, nil)
				if a.isDoneWithin(r.stream, await.Lapse(50*time.Millisecond)) {
					t.Fatal("done without its peer")
				}
				a.start(r, a.main, a.count, func(c *call) {
					if sameID {
						c.id--
					}
				})
				a.ends(a.main)
				if got := r.fault(); got != faultInFlight {
					t.Errorf("fault %d, want %d", got, faultInFlight)
				}
				a.isNaN(r)
				r.abort()
				a.ends(r.stream)
			})
		}
	}
}

// TestGPUStaleFlags: flags come again after 2^20 calls, but what was left in an inbox then is gone by that time. Without the
// calls in between it is not, which shows that the test can fail.
func TestGPUStaleFlags(t *testing.T) {
	const round, first = 1 << 20, 1000
	for _, b := range backends() {
		for _, between := range []int{0, 1 << 18} {
			a := newAlone(t, b, 20000)
			r := a.ranks[0]
			both := func() {
				for _, r := range a.ranks {
					a.start(r, r.stream, a.count, nil)
				}
				a.ends(a.ranks[0].stream)
				a.ends(a.ranks[1].stream)
			}
			a.preset(first)
			both()
			a.preset(first + round - uint32(between))
			const each = 256
			if between > 0 {
				row := a.row(collective.Float32, 4)
				f := a.gpu.function(a.source, row.Function)
				x := a.capture(nothing, func(r *rank) {
					for range each {
						launch(a.gpu, f, row.Grid, row.Block, r.stream, a.call(r, collective.Float32, 1, a.arena[r.rank], a.arena[r.rank]))
					}
				}, nothing)
				for range between / each {
					a.check(a.Launch(x, a.main))
				}
				a.finish(await.For(time.Minute))
			}
			if got := a.sequence(r); got != first+round {
				t.Fatalf("sequence %d, want %d", got, first+round)
			}
			a.start(r, r.stream, a.count, nil)
			done := a.isDoneWithin(r.stream, await.Lapse(100*time.Millisecond))
			if done != (between == 0) {
				t.Errorf("%s, %d calls between: done without its peer is %v", b.Info().Name, between, done)
			}
			for _, r := range a.ranks {
				r.abort()
			}
			a.ends(r.stream)
		}
	}
}
