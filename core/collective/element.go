package collective

import "math"

// F16 is an IEEE 754 binary16 number, held as its bits.
type F16 uint16

// BF16 is a bfloat16 number (the upper half of a float32), held as its bits.
type BF16 uint16

// Element is the set of Go types that a buffer may consist of.
type Element interface {
	float32 | float64 | F16 | BF16 | int8 | uint8 | int32 | int64
}

// DataTypeOf is the data type of the elements T.
func DataTypeOf[T Element]() DataType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case F16:
		return Float16
	case BF16:
		return BFloat16
	case int8:
		return Int8
	case uint8:
		return Uint8
	case int32:
		return Int32
	default:
		return Int64
	}
}

// NewBF16 rounds f to the nearest bfloat16, ties to even; a NaN stays a NaN.
func NewBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BF16(b>>16 | 0x40) // quiet, so that dropping the low bits cannot turn it into an infinity
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 is the exact value of h.
func (h BF16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// NewF16 rounds f to the nearest binary16, ties to even; overflow gives an infinity, a NaN stays a NaN.
func NewF16(f float32) F16 {
	b := math.Float32bits(f)
	sign := F16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | F16(b>>13&0x3ff)
	case b >= 0x477ff000: // rounds to 2^16 or more
		return sign | 0x7c00
	case b >= 0x38800000: // a normal binary16: rebias the exponent by 112, then round off 13 bits
		b -= 112 << 23
		return sign | F16((b+0xfff+b>>13&1)>>13)
	case b < 0x33000000: // below half the smallest subnormal
		return sign
	}
	shift := 126 - b>>23 // a subnormal is counted in units of 2^-24
	m := b&0x7fffff | 0x800000
	half := uint32(1)<<(shift-1) - 1
	return sign | F16((m+half+m>>shift&1)>>shift)
}

// Float32 is the exact value of h.
func (h F16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp == 0: // zero or subnormal, exact in float32
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
