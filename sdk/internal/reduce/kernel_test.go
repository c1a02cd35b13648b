package reduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// eachOp runs a test for every type and op.
func eachOp(t *testing.T, test func(t *testing.T, dt collective.DataType, op collective.Op, rng *rand.Rand)) {
	for _, dt := range collective.DataTypes() {
		for _, op := range collective.Ops() {
			t.Run(fmt.Sprintf("%s/%s", dt, op), func(t *testing.T) {
				test(t, dt, op, rand.New(rand.NewPCG(uint64(dt), uint64(op))))
			})
		}
	}
}

func divides(op collective.Op) []int {
	if op == collective.Avg {
		return []int{1, 3, 8, 128, 256, 1000}
	}
	return []int{1}
}

// TestKernels tries every number of sources with every length, the arrays anywhere, into each source and none.
func TestKernels(t *testing.T) {
	step := 1
	if len(variants()) == 1 { // plain Go alone, which has no tails
		step = 7
	}
	eachOp(t, func(t *testing.T, dt collective.DataType, op collective.Op, rng *rand.Rand) {
		for sources := 1; sources <= 9; sources++ {
			for n := 0; n <= 200; n += step {
				c := trial{dt: dt, op: op, sources: sources, n: n, shift: make([]int, sources+1)}
				for i := range c.shift {
					c.shift[i] = rng.IntN(64 / dt.Size())
				}
				c.inPlace = rng.IntN(sources+1) - 1
				c.divide = divides(op)[rng.IntN(len(divides(op)))]
				c.check(t, rng)
			}
		}
	})
}

// TestAlignments tries every place of the destination and, with it, some of a source.
func TestAlignments(t *testing.T) {
	eachOp(t, func(t *testing.T, dt collective.DataType, op collective.Op, rng *rand.Rand) {
		places := 64 / dt.Size()
		for d := range places {
			for i, s := range []int{0, 1, d, places - 1} {
				sources := []int{2, 5}[i%2]
				c := trial{dt: dt, op: op, sources: sources, n: rng.IntN(1200 / dt.Size()), shift: make([]int, sources+1), inPlace: -1, divide: 1}
				c.shift[1], c.shift[sources] = s%places, d
				c.check(t, rng)
			}
		}
	})
}

// TestLong tries lengths around those at which main loops begin and end.
func TestLong(t *testing.T) {
	eachOp(t, func(t *testing.T, dt collective.DataType, op collective.Op, rng *rand.Rand) {
		for i, bytes := range []int{511, 512, 513, 1024, 1025, 1536, 4097} {
			for _, sources := range []int{1, 2, 3, 4, 8, 17} {
				c := trial{dt: dt, op: op, sources: sources, n: bytes / dt.Size(), shift: make([]int, sources+1), inPlace: (i+sources)%(sources+1) - 1}
				c.shift[sources] = i % 3
				c.divide = divides(op)[i%len(divides(op))]
				c.check(t, rng)
			}
		}
	})
}

// TestSpecialValues tries every pair of interesting values, alone and with a third.
func TestSpecialValues(t *testing.T) {
	eachOp(t, func(t *testing.T, dt collective.DataType, op collective.Op, rng *rand.Rand) {
		special, size := interesting[dt], dt.Size()
		n := len(special) * len(special)
		for _, third := range []uint64{special[0], special[len(special)-1]} {
			var srcs [3][]byte
			pointers := make([]unsafe.Pointer, len(srcs))
			for s := range srcs {
				srcs[s] = make([]byte, n*size)
				pointers[s] = unsafe.Pointer(&srcs[s][0])
			}
			dst := make([]byte, n*size)
			for i := range n {
				putBits(dt, srcs[0][i*size:], special[i/len(special)])
				putBits(dt, srcs[1][i*size:], special[i%len(special)])
				putBits(dt, srcs[2][i*size:], third)
			}
			for sources := 2; sources <= 3; sources++ {
				for _, k := range candidates(dt, op) {
					k.kernel(unsafe.Pointer(&dst[0]), pointers[:sources], n, 1)
					for i := range n {
						in := []uint64{special[i/len(special)], special[i%len(special)], third}[:sources]
						got, want := bitsAt(dt, dst[i*size:]), reference(dt, op, 1, in)
						if got != want && !(isNaNBits(dt, got) && isNaNBits(dt, want)) {
							t.Errorf("%s: %s %s of %#x is %#x, want %#x", k.name, dt, op, in, got, want)
						}
					}
				}
			}
		}
	})
}

// TestRounding16 adds some values to every 16-bit value, so that every kind of rounding is met.
func TestRounding16(t *testing.T) {
	for _, dt := range []collective.DataType{collective.Float16, collective.BFloat16} {
		srcs, dst := [2][]uint16{make([]uint16, 1<<16), make([]uint16, 1<<16)}, make([]uint16, 1<<16)
		pointers := []unsafe.Pointer{unsafe.Pointer(&srcs[0][0]), unsafe.Pointer(&srcs[1][0])}
		for _, other := range append(slices.Clone(interesting[dt]), 0x3555, 0x1234, 0x0333, 0xb7ff) {
			for i := range srcs[0] {
				srcs[0][i], srcs[1][i] = uint16(i), uint16(other)
			}
			for _, k := range candidates(dt, collective.Sum) {
				k.kernel(unsafe.Pointer(&dst[0]), pointers, len(dst), 1)
				for i, got := range dst {
					want := reference(dt, collective.Sum, 1, []uint64{uint64(i), other})
					if uint64(got) != want && !(isNaNBits(dt, uint64(got)) && isNaNBits(dt, want)) {
						t.Fatalf("%s %s: %#x + %#x is %#x, want %#x", k.name, dt, i, other, got, want)
					}
				}
			}
		}
	}
}

// TestCopies copies every length between any two places.
func TestCopies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 1200 {
		_, src := array(n, rng.IntN(64))
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		for _, v := range variants() {
			all, dst := array(n, rng.IntN(64))
			v.copyPastCache(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), n)
			if !slices.Equal(src, dst) {
				t.Fatalf("%s: %d bytes were not copied as they are", v.name, n)
			}
			clear(dst)
			if i := slices.IndexFunc(all, func(b byte) bool { return b != 0 }); i >= 0 {
				t.Fatalf("%s: copying %d bytes wrote others", v.name, n)
			}
		}
	}
}

// FuzzKernels tries calls of any shape.
func FuzzKernels(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(0), uint8(2), uint16(100), int8(-1), uint16(1))
	f.Add(uint64(2), uint8(3), uint8(4), uint8(8), uint16(1000), int8(3), uint16(8))
	f.Fuzz(func(t *testing.T, seed uint64, dt, op, sources uint8, n uint16, inPlace int8, divide uint16) {
		c := trial{
			dt: collective.DataType(dt % collective.NumDataTypes), op: collective.Op(op % collective.NumOps),
			sources: int(sources%20) + 1, n: int(n % 3000), divide: int(divide) + 1,
		}
		c.inPlace = max(-1, int(inPlace)%c.sources)
		rng := rand.New(rand.NewPCG(seed, 0))
		c.shift = make([]int, c.sources+1)
		for i := range c.shift {
			c.shift[i] = rng.IntN(64 / c.dt.Size())
		}
		c.check(t, rng)
	})
}
