package reduce

import (
	"encoding/binary"
	"math"

	"github.com/weir-project/weir/core/collective"
)

// The reference knows elements as bits in a uint64, and shares nothing with the kernels.

func bitsAt(dt collective.DataType, b []byte) uint64 {
	switch dt.Size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func putBits(dt collective.DataType, b []byte, v uint64) {
	switch dt.Size() {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(v))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(v))
	default:
		binary.NativeEndian.PutUint64(b, v)
	}
}

func isNaNBits(dt collective.DataType, v uint64) bool {
	switch dt {
	case collective.Float32:
		return v&(1<<31-1) > 0x7f800000
	case collective.Float64:
		return v&(1<<63-1) > 0x7ff<<52
	case collective.Float16:
		return v&0x7fff > 0x7c00
	case collective.BFloat16:
		return v&0x7fff > 0x7f80
	}
	return false
}

// reference reduces one element of every source. What it gives for a NaN is some NaN.
func reference(dt collective.DataType, op collective.Op, divide int, in []uint64) uint64 {
	switch {
	case op == collective.Min || op == collective.Max:
		return extreme(dt, op, in)
	case dt == collective.Float64:
		v := math.Float64frombits(in[0])
		for _, b := range in[1:] {
			v = apply(op, v, math.Float64frombits(b))
		}
		if op == collective.Avg && divide != 1 {
			v /= float64(divide)
		}
		return math.Float64bits(v)
	case dt.Float():
		v := widenBits(dt, in[0])
		for _, b := range in[1:] {
			v = apply(op, v, widenBits(dt, b))
		}
		if op == collective.Avg && divide != 1 {
			v /= float32(divide)
		}
		return roundBits(dt, v)
	}
	v := int64(in[0])
	for _, b := range in[1:] {
		v = apply(op, v, int64(b)) // the bits above the type's do no harm
	}
	if op == collective.Avg && divide != 1 {
		v = signed(dt, uint64(v)) / int64(divide)
	}
	return uint64(v) & (math.MaxUint64 >> (64 - 8*dt.Size()))
}

func apply[T float32 | float64 | int64](op collective.Op, a, b T) T {
	if op == collective.Prod {
		return a * b
	}
	return a + b
}

func widenBits(dt collective.DataType, v uint64) float32 {
	switch dt {
	case collective.Float16:
		return collective.F16(v).Float32()
	case collective.BFloat16:
		return collective.BF16(v).Float32()
	}
	return math.Float32frombits(uint32(v))
}

func roundBits(dt collective.DataType, v float32) uint64 {
	switch dt {
	case collective.Float16:
		return uint64(collective.NewF16(v))
	case collective.BFloat16:
		return uint64(collective.NewBF16(v))
	}
	return uint64(math.Float32bits(v))
}

// signed is the value of the bits of an integer type.
func signed(dt collective.DataType, v uint64) int64 {
	if dt == collective.Uint8 {
		return int64(uint8(v))
	}
	shift := 64 - 8*dt.Size()
	return int64(v<<shift) >> shift
}

// extreme is the least or greatest by place in the order of the type's numbers, a NaN if there is no number.
func extreme(dt collective.DataType, op collective.Op, in []uint64) uint64 {
	best, found := in[0], false
	for _, v := range in {
		if isNaNBits(dt, v) {
			continue
		}
		a, b := place(dt, v), place(dt, best)
		if !found || op == collective.Min && a < b || op == collective.Max && a > b {
			best, found = v, true
		}
	}
	return best
}

// place orders the bits: floating-point numbers are a sign and a magnitude, -0 comes before +0.
func place(dt collective.DataType, v uint64) int64 {
	s := signed(dt, v)
	if dt.Float() && s < 0 {
		return -1 - int64(v&(1<<(8*dt.Size()-1)-1))
	}
	return s
}
