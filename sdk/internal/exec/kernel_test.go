package exec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/reduce"
)

var (
	nan       = math.NaN()
	inf       = math.Inf(1)
	minusZero = math.Copysign(0, -1)
)

// one runs a kernel over one element per source.
func one(dt collective.DataType, op collective.Op, divide int, values ...float64) []byte {
	srcs := make([]unsafe.Pointer, len(values))
	for r, v := range values {
		buf := aligned(8)
		if dt.Float() {
			put(dt, buf, 0, v)
		} else {
			putInt(dt, buf, 0, int64(v))
		}
		srcs[r] = unsafe.Pointer(&buf[0])
	}
	out := aligned(8)
	reduce.For(dt, op)(unsafe.Pointer(&out[0]), srcs, 1, divide)
	return out
}

func TestSpecialValues(t *testing.T) {
	const f32, f64, f16, bf16 = collective.Float32, collective.Float64, collective.Float16, collective.BFloat16
	floats := []collective.DataType{f32, f64, f16, bf16}
	for _, c := range []struct {
		name   string
		types  []collective.DataType
		op     collective.Op
		divide int
		values []float64
		want   float64
	}{
		{"min ignores NaN", floats, collective.Min, 1, []float64{nan, 3, nan, 2}, 2},
		{"max ignores NaN", floats, collective.Max, 1, []float64{3, nan, 2}, 3},
		{"min of NaN alone", floats, collective.Min, 1, []float64{nan, nan}, nan},
		{"max of NaN alone", floats, collective.Max, 1, []float64{nan, nan}, nan},
		{"min of zeros", floats, collective.Min, 1, []float64{0, minusZero}, minusZero},
		{"max of zeros", floats, collective.Max, 1, []float64{minusZero, 0, minusZero}, 0},
		{"min with infinity", floats, collective.Min, 1, []float64{inf, 5}, 5},
		{"sum with NaN", floats, collective.Sum, 1, []float64{1, nan}, nan},
		{"sum of infinities", floats, collective.Sum, 1, []float64{inf, -inf}, nan},
		{"sum with infinity", floats, collective.Sum, 1, []float64{1, inf}, inf},
		{"avg divides", floats, collective.Avg, 4, []float64{1, 2, 3, 4}, 2.5},
		{"avg of one source", floats, collective.Avg, 4, []float64{10}, 2.5},
		{"avg that is not final", floats, collective.Avg, 1, []float64{1, 2}, 3},
		{"float16 overflows when stored, not before", []collective.DataType{f16}, collective.Sum, 1, []float64{60000, 60000, -60000}, 60000},
		{"float16 overflows", []collective.DataType{f16}, collective.Sum, 1, []float64{60000, 60000}, inf},
		{"float16 subnormals", []collective.DataType{f16}, collective.Sum, 1, []float64{0x1p-24, 0x3p-24}, 0x4p-24},
		{"float16 rounds to even once", []collective.DataType{f16}, collective.Sum, 1, []float64{2048, 1, 1}, 2050},
		{"float16 tie to even", []collective.DataType{f16}, collective.Sum, 1, []float64{2048, 1}, 2048},
		{"bfloat16 rounds once", []collective.DataType{bf16}, collective.Sum, 1, []float64{256, 1, 1}, 258},
		{"bfloat16 tie to even", []collective.DataType{bf16}, collective.Sum, 1, []float64{256, 3}, 260},
		{"bfloat16 subnormals", []collective.DataType{bf16}, collective.Sum, 1, []float64{0x1p-133, 0x1p-133}, 0x1p-132},
		{"int8 wraps", []collective.DataType{collective.Int8}, collective.Sum, 1, []float64{100, 100}, -56},
		{"int8 product wraps", []collective.DataType{collective.Int8}, collective.Prod, 1, []float64{16, 16, 3}, 0},
		{"uint8 wraps", []collective.DataType{collective.Uint8}, collective.Sum, 1, []float64{200, 100}, 44},
		{"uint8 max is unsigned", []collective.DataType{collective.Uint8}, collective.Max, 1, []float64{200, 100}, 200},
		{"int avg truncates", []collective.DataType{collective.Int8, collective.Int32, collective.Int64}, collective.Avg, 2, []float64{-2, -1}, -1},
		{"int avg by more than the type holds", []collective.DataType{collective.Int8, collective.Uint8}, collective.Avg, 256, []float64{100}, 0},
		{"int avg of the wrapped sum", []collective.DataType{collective.Int8}, collective.Avg, 2, []float64{100, 100}, -28},
	} {
		for _, dt := range c.types {
			got, want := At(dt, one(dt, c.op, c.divide, c.values...), 0), c.want
			if !(math.IsNaN(got) && math.IsNaN(want)) && math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%s: %s: got %v, want %v", c.name, dt, got, want)
			}
		}
	}
}

// TestSourceOrder: (big + -big) + 1 is 1, any other order loses the 1.
func TestSourceOrder(t *testing.T) {
	for dt, big := range map[collective.DataType]float64{collective.Float32: 1e30, collective.Float64: 1e300, collective.BFloat16: 1e30} {
		if got := At(dt, one(dt, collective.Sum, 1, big, -big, 1), 0); got != 1 {
			t.Errorf("%s: got %v, sources were not added in order", dt, got)
		}
	}
}

// TestDstIsSource runs every kernel with dst as each of the sources in turn, over short and long arrays.
func TestDstIsSource(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, dt := range collective.DataTypes() {
		for _, op := range collective.Ops() {
			for _, n := range []int{1, 127, 128, 257} {
				inputs := make([][]byte, 3)
				for r := range inputs {
					inputs[r] = aligned(int64(n * dt.Size()))
					for i := range n {
						if dt.Float() {
							put(dt, inputs[r], i, float64(rng.IntN(8)-3))
						} else {
							putInt(dt, inputs[r], i, rng.Int64())
						}
					}
				}
				want := Reference(dt, op, inputs)
				divide := 1
				if op == collective.Avg {
					divide = 3
				}
				for alias := range inputs {
					srcs := make([]unsafe.Pointer, 3)
					for r := range inputs {
						srcs[r] = unsafe.Pointer(unsafe.SliceData(bytes.Clone(inputs[r])))
					}
					reduce.For(dt, op)(srcs[alias], srcs, n, divide)
					if got := unsafe.Slice((*byte)(srcs[alias]), n*dt.Size()); !bytes.Equal(got, want) && dt != collective.Float32 {
						t.Errorf("%s %s of %d elements into source %d is wrong", dt, op, n, alias)
					}
				}
			}
		}
	}
}

func TestReferenceRoundsOnce(t *testing.T) {
	buf := aligned(8)
	put(collective.BFloat16, buf, 0, 1+0x1p-8+0x1p-30) // just above a tie: rounding by way of float32 would go down
	if got := At(collective.BFloat16, buf, 0); got != 1+0x1p-7 {
		t.Errorf("got %v", got)
	}
	put(collective.Float16, buf, 0, -(1 + 0x1p-11 - 0x1p-40)) // just below a tie
	if got := At(collective.Float16, buf, 0); got != -1 {
		t.Errorf("got %v", got)
	}
}
