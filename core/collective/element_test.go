package collective_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-project/weir/core/collective"
)

// format is a 16-bit floating-point format, described independently of the conversions under test.
type format struct {
	name          string
	exponent      int // bits
	fraction      int // bits
	narrow        func(float32) uint16
	widen         func(uint16) float32
	values        []float64 // finite, non-negative, ascending; the index is the bit pattern
	infinity      uint16
	roundsToZero  float64 // half the smallest value
	roundsToInfty float64 // half a step above the largest value
}

func formats() []format {
	all := []format{
		{
			name: "float16", exponent: 5, fraction: 10,
			narrow: func(f float32) uint16 { return uint16(collective.NewF16(f)) },
			widen:  func(h uint16) float32 { return collective.F16(h).Float32() },
		},
		{
			name: "bfloat16", exponent: 8, fraction: 7,
			narrow: func(f float32) uint16 { return uint16(collective.NewBF16(f)) },
			widen:  func(h uint16) float32 { return collective.BF16(h).Float32() },
		},
	}
	for i := range all {
		all[i].describe()
	}
	return all
}

// describe lists the format's values from the definition of IEEE 754's binary interchange formats.
func (f *format) describe() {
	bias := 1<<(f.exponent-1) - 1
	f.infinity = uint16((1<<f.exponent - 1) << f.fraction)
	for bits := range int(f.infinity) {
		exponent, fraction := bits>>f.fraction, bits&(1<<f.fraction-1)
		if exponent == 0 {
			f.values = append(f.values, math.Ldexp(float64(fraction), 1-bias-f.fraction))
		} else {
			f.values = append(f.values, math.Ldexp(float64(1<<f.fraction+fraction), exponent-bias-f.fraction))
		}
	}
	last := len(f.values) - 1
	f.roundsToZero = f.values[1] / 2
	f.roundsToInfty = f.values[last] + (f.values[last]-f.values[last-1])/2
}

// nearest rounds by search among all values: to the nearest, ties to the even bit pattern.
func (f *format) nearest(v float32) uint16 {
	sign := uint16(0)
	if math.Signbit(float64(v)) {
		sign = 0x8000
	}
	a := math.Abs(float64(v))
	if a >= f.roundsToInfty {
		return sign | f.infinity
	}
	above, found := slices.BinarySearch(f.values, a)
	if found {
		return sign | uint16(above)
	}
	if above == len(f.values) {
		return sign | uint16(above-1)
	}
	below := above - 1
	down, up := a-f.values[below], f.values[above]-a // exact: all have few bits and close exponents
	if down < up || down == up && below%2 == 0 {
		return sign | uint16(below)
	}
	return sign | uint16(above)
}

func TestWideningIsExact(t *testing.T) {
	for _, f := range formats() {
		t.Run(f.name, func(t *testing.T) {
			for bits := range 1 << 16 {
				got := f.widen(uint16(bits))
				magnitude, negative := uint16(bits&0x7fff), bits&0x8000 != 0
				switch {
				case magnitude > f.infinity:
					if got == got {
						t.Fatalf("%#04x is a NaN, got %v", bits, got)
					}
				case math.Signbit(float64(got)) != negative:
					t.Fatalf("%#04x: sign lost, got %v", bits, got)
				case magnitude == f.infinity:
					if !math.IsInf(float64(got), 0) {
						t.Fatalf("%#04x is an infinity, got %v", bits, got)
					}
				case math.Abs(float64(got)) != f.values[magnitude]:
					t.Fatalf("%#04x: got %v, want %v", bits, got, f.values[magnitude])
				}
			}
		})
	}
}

func TestNarrowingUndoesWidening(t *testing.T) {
	for _, f := range formats() {
		t.Run(f.name, func(t *testing.T) {
			for bits := range 1 << 16 {
				back := f.narrow(f.widen(uint16(bits)))
				if magnitude := uint16(bits & 0x7fff); magnitude > f.infinity {
					if back&0x7fff <= f.infinity || back&0x8000 != uint16(bits)&0x8000 {
						t.Fatalf("NaN %#04x came back as %#04x", bits, back)
					}
				} else if back != uint16(bits) {
					t.Fatalf("%#04x came back as %#04x", bits, back)
				}
			}
		})
	}
}

// TestNarrowingRounds tries, beside every value and every tie between two, the float32 numbers next to them.
func TestNarrowingRounds(t *testing.T) {
	for _, f := range formats() {
		t.Run(f.name, func(t *testing.T) {
			check := func(v float32) {
				t.Helper()
				for _, w := range []float32{v, -v} {
					if got, want := f.narrow(w), f.nearest(w); got != want {
						t.Fatalf("%v (%#08x): got %#04x, want %#04x", w, math.Float32bits(w), got, want)
					}
				}
			}
			around := func(x float64) {
				t.Helper()
				v := float32(x)
				if float64(v) != x {
					t.Fatalf("%v is not a float32", x)
				}
				check(v)
				check(math.Nextafter32(v, 0))
				check(math.Nextafter32(v, float32(math.Inf(1))))
			}
			for i, x := range f.values {
				around(x)
				if i > 0 {
					around(f.values[i-1] + (x-f.values[i-1])/2)
				}
			}
			around(f.roundsToZero)
			around(f.roundsToInfty)
			check(math.MaxFloat32)
			check(math.SmallestNonzeroFloat32)
			check(float32(math.Inf(1)))
		})
	}
}

func TestNarrowingOfRandomBits(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, f := range formats() {
		for range 200_000 {
			v := math.Float32frombits(r.Uint32())
			got := f.narrow(v)
			if v != v {
				if got&0x7fff <= f.infinity {
					t.Fatalf("%s: NaN %#08x became %#04x", f.name, math.Float32bits(v), got)
				}
			} else if want := f.nearest(v); got != want {
				t.Fatalf("%s, seed %d: %v (%#08x): got %#04x, want %#04x", f.name, seed, v, math.Float32bits(v), got, want)
			}
		}
	}
}

// TestNaNStaysNaN tries NaNs whose set bits are all among those that narrowing drops.
func TestNaNStaysNaN(t *testing.T) {
	for _, f := range formats() {
		for bit := range 23 {
			for _, sign := range []uint32{0, 1 << 31} {
				bits := sign | 0x7f800000 | 1<<bit
				got := f.narrow(math.Float32frombits(bits))
				if got&0x7fff <= f.infinity || uint32(got)>>15 != sign>>31 {
					t.Errorf("%s: NaN %#08x became %#04x", f.name, bits, got)
				}
			}
		}
	}
}

func TestDataTypeOf(t *testing.T) {
	for want, got := range map[collective.DataType]collective.DataType{
		collective.Float32:  collective.DataTypeOf[float32](),
		collective.Float64:  collective.DataTypeOf[float64](),
		collective.Float16:  collective.DataTypeOf[collective.F16](),
		collective.BFloat16: collective.DataTypeOf[collective.BF16](),
		collective.Int8:     collective.DataTypeOf[int8](),
		collective.Uint8:    collective.DataTypeOf[uint8](),
		collective.Int32:    collective.DataTypeOf[int32](),
		collective.Int64:    collective.DataTypeOf[int64](),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
