package exec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/schedule"
)

var algorithms = map[string]func(world int, tile int64) *plan.Schedule{"flat": flat, "scattered": scattered}

func TestEveryClass(t *testing.T) {
	for name, build := range algorithms {
		for _, world := range []int{1, 2, 3, 5, 9} {
			t.Run(fmt.Sprintf("%s/%d", name, world), func(t *testing.T) {
				g := newTeam(t, build(world, 256), Watch{})
				for i := range collective.NumClasses {
					c := collective.ClassAt(i)
					if c.Memory != collective.Host || c.Captured {
						continue
					}
					sizes := TestSizes(c.DataType, backend.AllBytes(), []int64{256}, 9000)
					g.must(t, func(rank int, x *Schedule) error { return SelfTestSizes(x.Run, rank, world, c, sizes, nil) })
				}
			})
		}
	}
}

// TestRacingRanks makes calls of random classes and lengths, in and out of place, while ranks fall behind at random.
func TestRacingRanks(t *testing.T) {
	for name, build := range algorithms {
		for _, world := range []int{2, 3, 6, 9} {
			t.Run(fmt.Sprintf("%s/%d", name, world), func(t *testing.T) {
				g := newTeam(t, build(world, 128), Watch{})
				g.must(t, func(rank int, x *Schedule) error {
					common, own := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, uint64(rank)))
					late := func(c Call) error { dawdle(own); return x.Run(c) }
					for range 80 {
						c := class(collective.DataType(common.IntN(collective.NumDataTypes)), collective.Op(common.IntN(collective.NumOps)))
						n := int64(common.IntN(1200)) * int64(c.DataType.Size())
						if n == 0 {
							n = int64(c.DataType.Size())
						}
						if err := SelfTestSizes(late, rank, world, c, []int64{n}, nil); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

func TestSpinningRanks(t *testing.T) {
	g := newTeam(t, flat(2, 64), Watch{})
	g.must(t, func(rank int, x *Schedule) error {
		x.watch.Yield = false
		return SelfTestSizes(x.Run, rank, 2, class(collective.Float32, collective.Sum), []int64{4, 64, 640}, nil)
	})
}

func TestRandomFloatsMatchReference(t *testing.T) {
	const world, n = 4, 3000
	for _, dt := range []collective.DataType{collective.Float32, collective.Float16, collective.BFloat16, collective.Int32} {
		for _, op := range collective.Ops() {
			rng := rand.New(rand.NewPCG(uint64(dt), uint64(op)))
			inputs, outputs := make([][]byte, world), make([][]byte, world)
			for r := range inputs {
				inputs[r], outputs[r] = aligned(int64(n*dt.Size())), aligned(int64(n*dt.Size()))
				for i := range n {
					if dt.Float() {
						put(dt, inputs[r], i, rng.NormFloat64())
					} else {
						putInt(dt, inputs[r], i, rng.Int64())
					}
				}
			}
			newTeam(t, scattered(world, 1024), Watch{}).must(t, func(rank int, x *Schedule) error {
				return x.Run(callOf(class(dt, op), outputs[rank], inputs[rank]))
			})
			want := Reference(dt, op, inputs)
			epsilon := map[collective.DataType]float64{collective.Float32: 1e-6, collective.Float16: 1e-3, collective.BFloat16: 8e-3}[dt]
			for i := range n {
				size := 0.0 // of what was added up, since sums cancel
				for _, in := range inputs {
					size = max(size, math.Abs(At(dt, in, i)), math.Abs(At(dt, want, i)))
				}
				if got, want := At(dt, outputs[0], i), At(dt, want, i); math.Abs(got-want) > epsilon*size {
					t.Fatalf("%s %s: element %d is %v, want %v", dt, op, i, got, want)
				}
			}
			for r := range outputs {
				if !bytes.Equal(outputs[0], outputs[r]) {
					t.Errorf("%s %s: rank %d has other bits than rank 0", dt, op, r)
				}
			}
		}
	}
}

// TestWrap runs over the point where the number in a signal wraps around, with buffers that do not divide 2^32.
func TestWrap(t *testing.T) {
	for _, start := range []uint64{1<<32 - 5, 1<<31 - 5, 1<<32 - 1, 1 << 32} {
		s := scattered(3, 128)
		g := newTeam(t, s, Watch{})
		for _, x := range g.ranks {
			x.next = start
		}
		for rank := range s.Programs {
			for signal := range s.Signals {
				*element[uint64](g.ranks[0].shared[s.SignalOffset(rank, signal):], 0) = uint64(uint32(start - 1))
			}
		}
		sizes := []int64{4, 400, 512, 128, 1200}
		g.must(t, func(rank int, x *Schedule) error {
			rng := rand.New(rand.NewPCG(9, uint64(rank)))
			late := func(c Call) error { dawdle(rng); return x.Run(c) }
			return SelfTestSizes(late, rank, 3, class(collective.Float32, collective.Sum), sizes, nil)
		})
		if g.ranks[0].next <= start {
			t.Fatalf("start %d: no tile was counted", start)
		}
	}
}

// TestBuffersTakeTurnsAcrossTheWrap: 2^32 is not a multiple of three, yet no tile may take the buffer of the one before.
func TestBuffersTakeTurnsAcrossTheWrap(t *testing.T) {
	shape := schedule.Shape{TileBytes: 64, Buffers: 3, Slots: 1, Chunks: 1}
	s := schedule.Build(1, shape, func(r *schedule.Rank) {
		r.Copy(schedule.Slot(0, 0), schedule.In(), plan.AllChunks)
		r.CopyFinal(schedule.Out(), schedule.Slot(0, 0), plan.AllChunks)
	})
	x := newTeam(t, s, Watch{}).ranks[0]
	x.next = 1<<32 - 1
	data := aligned(3 * 64)
	for i := range data {
		data[i] = byte(1 + i/64)
	}
	if err := x.Run(callOf(class(collective.Uint8, collective.Sum), aligned(3*64), data)); err != nil {
		t.Fatal(err)
	}
	seen := map[byte]bool{}
	for buffer := range s.Buffers {
		seen[x.shared[s.SlotOffset(0, 0, buffer)]] = true
	}
	if !seen[1] || !seen[2] || !seen[3] {
		t.Errorf("three tiles did not take three buffers: %v", seen)
	}
}

// TestLag runs a schedule of one buffer in which a rank waits for the tile before, also where numbers begin and wrap.
func TestLag(t *testing.T) {
	s := flat(3, 64)
	s.Buffers, s.Signals = 1, 2
	for r := range s.Programs {
		var before []plan.Step
		for p := range s.Programs {
			before = append(before, plan.Step{Kind: plan.Wait, Rank: p, Signal: 1, Lag: 1})
		}
		s.Programs[r] = append(append(before, s.Programs[r]...), plan.Step{Kind: plan.Signal, Signal: 1})
	}
	g := newTeam(t, s, Watch{})
	g.must(t, func(rank int, x *Schedule) error {
		rng := rand.New(rand.NewPCG(5, uint64(rank)))
		late := func(c Call) error { dawdle(rng); return x.Run(c) }
		for i := range 50 {
			c := class(collective.DataTypes()[i%collective.NumDataTypes], collective.Sum)
			if err := SelfTestSizes(late, rank, 3, c, []int64{8, 200, 640}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestNoAllocation counts what the whole process allocates while two ranks make calls: their waits are counted with.
func TestNoAllocation(t *testing.T) {
	const calls, attempts = 20, 5
	for name, build := range algorithms {
		for _, dt := range collective.DataTypes() {
			for _, op := range []collective.Op{collective.Sum, collective.Max, collective.Avg} {
				g := newTeam(t, build(2, 256), Watch{})
				least := uint64(math.MaxUint64) // over the attempts: the runtime itself allocates at times
				g.must(t, func(rank int, x *Schedule) error {
					c := callOf(class(dt, op), aligned(2048), aligned(2048))
					var before, after runtime.MemStats
					for range attempts {
						if err := x.Run(c); err != nil {
							return err
						}
						if rank == 0 {
							runtime.ReadMemStats(&before)
						}
						for range calls {
							if err := x.Run(c); err != nil {
								return err
							}
						}
						if rank == 0 {
							runtime.ReadMemStats(&after)
							least = min(least, after.Mallocs-before.Mallocs)
						}
					}
					return nil
				})
				if least != 0 {
					t.Errorf("%s %s %s: %d allocations in %d calls", name, dt, op, least, calls)
				}
			}
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, bytes := range []int64{8, 14336, 229376, 4 << 20} {
		for name, build := range algorithms {
			b.Run(fmt.Sprintf("%s/bfloat16/%d", name, bytes), func(b *testing.B) {
				g := newTeam(b, build(2, 128<<10), Watch{})
				b.SetBytes(bytes)
				b.ReportAllocs()
				g.must(b, func(_ int, x *Schedule) error {
					c := callOf(class(collective.BFloat16, collective.Sum), aligned(bytes), aligned(bytes))
					for range b.N {
						if err := x.Run(c); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// TestChunksCoverTheTile: in order, without gap or overlap, each beginning at a cache line.
func TestChunksCoverTheTile(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 5000 {
		bytes, chunks := int64(rng.IntN(5000)), int64(1+rng.IntN(20))
		end := int64(0)
		for i := range chunks {
			lo, n := chunk(bytes, chunks, i)
			if lo != end || n < 0 || n > 0 && lo%64 != 0 {
				t.Fatalf("chunk %d of %d of %d bytes is %d bytes at %d, the one before ends at %d", i, chunks, bytes, n, lo, end)
			}
			end = lo + n
		}
		if end != bytes {
			t.Fatalf("%d chunks of %d bytes end at %d", chunks, bytes, end)
		}
	}
}
