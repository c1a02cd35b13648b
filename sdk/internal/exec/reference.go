package exec

import (
	"math"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// Reference is what an all-reduce of the inputs (one per rank, equally long, the elements' bytes) should give: integers
// exactly, floating-point types computed in float64 in rank order and rounded once. It is written for clarity and shares
// nothing with the kernels.
func Reference(dt collective.DataType, op collective.Op, inputs [][]byte) []byte {
	out := make([]byte, len(inputs[0]))
	for i := range len(out) / dt.Size() {
		if dt.Float() {
			v := At(dt, inputs[0], i)
			for _, in := range inputs[1:] {
				v = referenceFloat(op, v, At(dt, in, i))
			}
			if op == collective.Avg {
				v /= float64(len(inputs))
			}
			put(dt, out, i, v)
			continue
		}
		v := atInt(dt, inputs[0], i)
		for _, in := range inputs[1:] {
			v = referenceInt(op, v, atInt(dt, in, i))
		}
		putInt(dt, out, i, v)
		if op == collective.Avg { // of the sum as it wrapped
			putInt(dt, out, i, atInt(dt, out, i)/int64(len(inputs)))
		}
	}
	return out
}

func referenceFloat(op collective.Op, a, b float64) float64 {
	switch {
	case op == collective.Prod:
		return a * b
	case op == collective.Sum || op == collective.Avg:
		return a + b
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	case op == collective.Min:
		return math.Min(a, b)
	}
	return math.Max(a, b)
}

// referenceInt may wrap around at 64 bits: the lower bits, which smaller types keep, are right all the same.
func referenceInt(op collective.Op, a, b int64) int64 {
	switch op {
	case collective.Prod:
		return a * b
	case collective.Min:
		return min(a, b)
	case collective.Max:
		return max(a, b)
	}
	return a + b
}

func element[T any](buf []byte, i int) *T {
	var t T
	size := int(unsafe.Sizeof(t))
	return (*T)(unsafe.Pointer(&buf[i*size : (i+1)*size][0]))
}

// At is element i of a buffer, as near as a float64 comes to it.
func At(dt collective.DataType, buf []byte, i int) float64 {
	switch dt {
	case collective.Float32:
		return float64(*element[float32](buf, i))
	case collective.Float64:
		return *element[float64](buf, i)
	case collective.Float16:
		return float64(element[collective.F16](buf, i).Float32())
	case collective.BFloat16:
		return float64(element[collective.BF16](buf, i).Float32())
	}
	return float64(atInt(dt, buf, i))
}

func atInt(dt collective.DataType, buf []byte, i int) int64 {
	switch dt {
	case collective.Int8:
		return int64(*element[int8](buf, i))
	case collective.Uint8:
		return int64(*element[uint8](buf, i))
	case collective.Int32:
		return int64(*element[int32](buf, i))
	}
	return *element[int64](buf, i)
}

// put stores v, rounded, as element i of a buffer of a floating-point type.
func put(dt collective.DataType, buf []byte, i int, v float64) {
	switch dt {
	case collective.Float64:
		*element[float64](buf, i) = v
	case collective.Float16:
		*element[collective.F16](buf, i) = collective.NewF16(toOdd(v))
	case collective.BFloat16:
		*element[collective.BF16](buf, i) = collective.NewBF16(toOdd(v))
	default:
		*element[float32](buf, i) = float32(v)
	}
}

// toOdd is v as a float32 whose last bit is set if it is not exact, so that rounding it again to 16 bits gives the same
// as rounding v.
func toOdd(v float64) float32 {
	f := float32(v)
	if float64(f) == v || math.IsNaN(v) || math.IsInf(float64(f), 0) {
		return f
	}
	bits := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		bits--
	}
	return math.Float32frombits(bits | 1)
}

// putInt stores v, wrapped around, as element i of a buffer of an integer type.
func putInt(dt collective.DataType, buf []byte, i int, v int64) {
	switch dt {
	case collective.Int8:
		*element[int8](buf, i) = int8(v)
	case collective.Uint8:
		*element[uint8](buf, i) = uint8(v)
	case collective.Int32:
		*element[int32](buf, i) = int32(v)
	default:
		*element[int64](buf, i) = v
	}
}
