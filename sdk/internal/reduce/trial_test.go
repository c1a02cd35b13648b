package reduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// interesting are values at which something changes, as bits; other bits are cut off.
var interesting = map[collective.DataType][]uint64{
	collective.Float32: {
		0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0xff9fffff, 0x7fffffff, 0xffffffff,
		1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x33800000,
	},
	collective.Float64: {
		0, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, 0x7ff8 << 48, 0xfff8<<48 | 1, 0x7ff0<<48 | 1, 0xfff7 << 48, 1<<63 - 1, 1<<64 - 1,
		1, 1<<63 | 1, 1<<52 - 1, 1 << 52, 0x7fef<<48 | 1<<48 - 1, 0x3ff0 << 48, 0xbff0 << 48, 0x3ff0<<48 | 1, 0x3ca0 << 48,
	},
	collective.Float16: {
		0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0xfdff, 0x7fff, 0xffff, 1, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
		0x3c00, 0xbc00, 0x3c01, 0x6800, 0x1000, 0x0001, 0x7800,
	},
	collective.BFloat16: {
		0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0xff9f, 0x7fff, 0xffff, 1, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f,
		0x3f80, 0xbf80, 0x3f81, 0x4380, 0x3b80, 0x7f00,
	},
	collective.Int8:  {0, 1, 0x7f, 0x80, 0xff, 0x81},
	collective.Uint8: {0, 1, 0x7f, 0x80, 0xff, 0xfe},
	collective.Int32: {0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 16},
	collective.Int64: {0, 1, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1 << 32, 1<<31 - 1},
}

// trial is one call of a kernel, in arrays that lie anywhere.
type trial struct {
	dt      collective.DataType
	op      collective.Op
	sources int
	n       int
	shift   []int // of each source and the destination, in elements from a multiple of 64 bytes
	inPlace int   // the source that is the destination, or -1
	divide  int
}

func (c trial) String() string {
	return fmt.Sprintf("%s %s of %d sources, %d elements, shifts %v, into source %d, divided by %d",
		c.dt, c.op, c.sources, c.n, c.shift, c.inPlace, c.divide)
}

const guard = 128 // bytes on both sides of an array that must stay as they are

// array is a place for bytes that begins some bytes after a multiple of 64, with guards around.
func array(bytes, shift int) (all, inner []byte) {
	all = make([]byte, bytes+2*guard+128)
	at := guard + shift
	for uintptr(unsafe.Pointer(&all[at-shift]))%64 != 0 {
		at++
	}
	return all, all[at : at+bytes : at+bytes]
}

// inputs fills the sources: finite values for the most part, of like size, so that sums are not all infinite.
func (c trial) inputs(rng *rand.Rand) [][]byte {
	size := c.dt.Size()
	srcs := make([][]byte, c.sources)
	for s := range srcs {
		_, srcs[s] = array(c.n*size, c.shift[s]*size)
		for i := range c.n {
			putBits(c.dt, srcs[s][i*size:], c.value(rng))
		}
	}
	return srcs
}

func (c trial) value(rng *rand.Rand) uint64 {
	switch special := interesting[c.dt]; rng.IntN(4) {
	case 0:
		return special[rng.IntN(len(special))]
	case 1:
		return rng.Uint64()
	}
	switch f := float32(rng.NormFloat64()); c.dt {
	case collective.Float64:
		return rng.Uint64()>>12 | 0x3ff<<52 | rng.Uint64()&(1<<63)
	case collective.Float32, collective.Float16, collective.BFloat16:
		return roundBits(c.dt, f)
	}
	return rng.Uint64()
}

// named is a kernel and what to call it.
type named struct {
	name   string
	kernel Kernel
}

// candidates are the kernels of a type and op that this processor can run.
func candidates(dt collective.DataType, op collective.Op) (all []named) {
	for _, v := range variants() {
		all = append(all, named{v.name, v.kernels[dt][op]})
		if op == collective.Sum {
			all = append(all, named{v.name + " streaming", v.streams[dt][op]})
		}
	}
	return all
}

// check makes the call with every kernel there is for it and compares every bit with the reference, except that one NaN
// is as good as another. It also looks for stores outside the destination and into sources.
func (c trial) check(t *testing.T, rng *rand.Rand) {
	t.Helper()
	size := c.dt.Size()
	srcs := c.inputs(rng)
	want := make([]uint64, c.n)
	element := make([]uint64, c.sources)
	for i := range want {
		for s := range srcs {
			element[s] = bitsAt(c.dt, srcs[s][i*size:])
		}
		want[i] = reference(c.dt, c.op, c.divide, element)
	}
	all, dst := array(c.n*size, c.shift[c.sources]*size)
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(dst))) - uintptr(unsafe.Pointer(&all[0])))
	pointers := make([]unsafe.Pointer, c.sources)
	for s := range srcs {
		pointers[s] = unsafe.Pointer(unsafe.SliceData(srcs[s]))
		if s == c.inPlace {
			pointers[s] = unsafe.Pointer(unsafe.SliceData(dst))
		}
	}
	before := make([][]byte, c.sources)
	for s := range srcs {
		before[s] = slices.Clone(srcs[s])
	}
	for _, k := range candidates(c.dt, c.op) {
		for i := range all {
			all[i] = 0xa5
		}
		if c.inPlace >= 0 {
			copy(dst, srcs[c.inPlace])
		}
		k.kernel(unsafe.Pointer(unsafe.SliceData(dst)), pointers, c.n, c.divide)
		for i, w := range want {
			if got := bitsAt(c.dt, dst[i*size:]); got != w && !(isNaNBits(c.dt, got) && isNaNBits(c.dt, w)) {
				for s := range before {
					element[s] = bitsAt(c.dt, before[s][i*size:])
				}
				t.Fatalf("%s: %s: element %d of %#x is %#x, want %#x", k.name, c, i, element, got, w)
			}
		}
		for s := range srcs {
			if !slices.Equal(srcs[s], before[s]) {
				t.Fatalf("%s: %s: source %d was changed", k.name, c, s)
			}
		}
		for i, b := range all {
			if (i < at || i >= at+len(dst)) && b != 0xa5 {
				t.Fatalf("%s: %s: byte %d after the beginning of %d was written", k.name, c, i-at, len(dst))
			}
		}
	}
}
