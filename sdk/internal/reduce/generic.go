package reduce

import (
	"math/bits"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// generic is every kernel in plain Go.
func generic() (t table) {
	for _, op := range collective.Ops() {
		t[collective.Float32][op] = kernelOf[float32](op)
		t[collective.Float64][op] = kernelOf[float64](op)
		t[collective.Int8][op] = kernelOf[int8](op)
		t[collective.Uint8][op] = kernelOf[uint8](op)
		t[collective.Int32][op] = kernelOf[int32](op)
		t[collective.Int64][op] = kernelOf[int64](op)
		for _, dt := range []collective.DataType{collective.Float16, collective.BFloat16} {
			t[dt][op] = func(dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) { fold16(dt, op, dst, srcs, n, divide) }
		}
	}
	return t
}

// number is the element types that accumulate in themselves.
type number interface {
	float32 | float64 | int8 | uint8 | int32 | int64
}

func kernelOf[T number](op collective.Op) Kernel {
	return func(dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) { fold[T](op, dst, srcs, n, divide) }
}

// block is how many elements are accumulated at a time: all sources of a block are read before it is stored, so that
// dst may be one of them, and the accumulator stays in the first-level cache.
const block = 128

func fold[T number](op collective.Op, dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) {
	var acc [block]T
	for at := 0; at < n; at += block {
		a := acc[:min(block, n-at)]
		copy(a, elements[T](srcs[0], at, len(a)))
		for _, src := range srcs[1:] {
			combine(op, a, elements[T](src, at, len(a)))
		}
		if op == collective.Avg && divide != 1 {
			quotients(a, divide)
		}
		copy(elements[T](dst, at, len(a)), a)
	}
}

// fold16 is fold for the types that accumulate in float32.
func fold16(dt collective.DataType, op collective.Op, dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) {
	var acc, wide [block]float32
	for at := 0; at < n; at += block {
		a, w := acc[:min(block, n-at)], wide[:min(block, n-at)]
		widen(dt, a, srcs[0], at)
		for _, src := range srcs[1:] {
			widen(dt, w, src, at)
			combine(op, a, w)
		}
		if op == collective.Avg && divide != 1 {
			quotients(a, divide)
		}
		round(dt, dst, at, a)
	}
}

// elements are n elements from the one at index at.
func elements[T collective.Element](base unsafe.Pointer, at, n int) []T {
	return unsafe.Slice((*T)(base), at+n)[at:]
}

// combine applies the op to a and b element by element, into a.
func combine[T number](op collective.Op, a, b []T) {
	b = b[:len(a)]
	switch op {
	case collective.Prod:
		for i := range a {
			a[i] *= b[i]
		}
	case collective.Min:
		for i := range a {
			a[i] = lesser(a[i], b[i])
		}
	case collective.Max:
		for i := range a {
			a[i] = greater(a[i], b[i])
		}
	default: // sum, and avg before it is divided
		for i := range a {
			a[i] += b[i]
		}
	}
}

// lesser ignores a NaN where the other is a number; Go's min orders -0 before +0.
func lesser[T number](a, b T) T {
	switch {
	case isNaN(a):
		return b
	case isNaN(b):
		return a
	}
	return min(a, b)
}

func greater[T number](a, b T) T {
	switch {
	case isNaN(a):
		return b
	case isNaN(b):
		return a
	}
	return max(a, b)
}

func isNaN[T number](v T) bool { return v != v }

// quotients divides a by n. Integers are divided as int64: n may not fit into T.
func quotients[T number](a []T, n int) {
	if T(1)/T(2) != 0 { // floating point
		for i := range a {
			a[i] /= T(n)
		}
		return
	}
	if n&(n-1) == 0 { // a division takes ten times as long
		shift := bits.TrailingZeros(uint(n))
		for i := range a {
			v := int64(a[i])
			a[i] = T((v + v>>63&int64(n-1)) >> shift)
		}
		return
	}
	for i := range a {
		a[i] = T(int64(a[i]) / int64(n))
	}
}

// widen reads len(a) elements from the one at index at.
func widen(dt collective.DataType, a []float32, src unsafe.Pointer, at int) {
	if dt == collective.Float16 {
		h := elements[collective.F16](src, at, len(a))[:len(a)]
		for i := range a {
			a[i] = h[i].Float32()
		}
		return
	}
	h := elements[collective.BF16](src, at, len(a))[:len(a)]
	for i := range a {
		a[i] = h[i].Float32()
	}
}

// round stores a as the elements from the one at index at.
func round(dt collective.DataType, dst unsafe.Pointer, at int, a []float32) {
	if dt == collective.Float16 {
		h := elements[collective.F16](dst, at, len(a))[:len(a)]
		for i := range a {
			h[i] = collective.NewF16(a[i])
		}
		return
	}
	h := elements[collective.BF16](dst, at, len(a))[:len(a)]
	for i := range a {
		h[i] = collective.NewBF16(a[i])
	}
}
