package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const unordered = operand.U8(3) // predicate: one of the two is a NaN

// ordered is min and max of float32 and float64, where a NaN gives way to a number and -0 is less than +0.
func ordered(set isa, name string, bytes int, greatest bool) algorithm {
	if set.vector == 64 {
		return ranged(name, bytes, greatest)
	}
	a := algorithm{name: name, bytes: bytes, unroll: 4}.plain(nil)
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) {
		x, b := acc[0], f.load(w, s)
		nan, other := f.vec(w), f.vec(w)
		compare, blend, least := f.VCMPPS, f.VBLENDVPS, f.VMINPS
		if bytes == 8 {
			compare, blend, least = f.VCMPPD, f.VBLENDVPD, f.VMINPD
		}
		join := f.or // of equal numbers; the sign of -0 stays
		if greatest {
			least, join = f.VMAXPS, f.and
			if bytes == 8 {
				least = f.VMAXPD
			}
		}
		compare(unordered, x, x, nan)
		blend(nan, b, x, x)
		compare(unordered, b, b, nan)
		blend(nan, x, b, b)
		least(x, b, other) // of two zeros the instruction gives one by its place, so it is asked both ways
		least(b, x, x)
		join(other, x, x)
	}
	return a
}

// ranged is ordered by the instruction that AVX-512 has for it. That takes a signalling NaN for a number, so those are
// made quiet by adding -0, which changes nothing else.
func ranged(name string, bytes int, greatest bool) algorithm {
	a := algorithm{name: name, bytes: bytes, unroll: 8}.plain(nil)
	choice := operand.U8(4) // least, with its own sign
	if greatest {
		choice = 5
	}
	var zero reg.VecVirtual
	a.setup = func(f *function) {
		zero = f.ones()
		if bytes == 8 {
			f.VPSLLQ(operand.U8(63), zero, zero)
		} else {
			f.VPSLLD(operand.U8(31), zero, zero)
		}
	}
	quiet := func(f *function, w int, s source) reg.VecVirtual {
		r := f.vec(w)
		if bytes == 8 {
			f.VADDPD(f.operand(w, s), as(zero, w), r)
		} else {
			f.VADDPS(f.operand(w, s), as(zero, w), r)
		}
		return r
	}
	a.first = func(f *function, w int, s source) []reg.VecVirtual { return []reg.VecVirtual{quiet(f, w, s)} }
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) {
		b := quiet(f, w, s)
		if bytes == 8 {
			f.VRANGEPD(choice, b, acc[0], acc[0])
		} else {
			f.VRANGEPS(choice, b, acc[0], acc[0])
		}
	}
	return a
}

// float16 accumulates in float32 by the conversions of the processor, which round to nearest, ties to even.
func (a algorithm) float16(op binary) algorithm {
	a.half = true
	a.setup = func(*function) {}
	wide := func(f *function, w int, s source) reg.VecVirtual {
		r := f.vec(2 * w)
		f.VCVTPH2PS(f.operand(w, s), r)
		return r
	}
	a.first = func(f *function, w int, s source) []reg.VecVirtual { return []reg.VecVirtual{wide(f, w, s)} }
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) { op(f, wide(f, w, s), acc[0], acc[0]) }
	a.finish = func(f *function, w int, acc []reg.VecVirtual) reg.VecVirtual {
		r := f.vec(w)
		f.VCVTPS2PH(operand.U8(0), acc[0], r)
		return r
	}
	return a
}

// bfloat16 accumulates in float32: the elements at even places in one register, those at odd places in another, so that
// nothing has to be moved between lanes.
//
// Rounding adds just under half of the last bit that stays, and that bit. A NaN needs no care: those that arise from
// bfloat16 inputs have nothing in the bits that are dropped. AVX-512's own conversion is of no use: it takes subnormals
// for zero, and finding those out costs what it would save.
func (a algorithm) bfloat16(op binary) algorithm {
	var upper, bias, lowest, minus reg.VecVirtual // lowest is the last bit that stays, where it is looked at
	a.setup = func(f *function) {
		upper, bias, lowest = f.ones(), f.ones(), f.ones()
		f.VPSLLD(operand.U8(16), upper, upper)
		f.VPSRLD(operand.U8(17), bias, bias)
		f.VPSRLD(operand.U8(31), lowest, lowest)
		if f.vector == 64 {
			f.VPSLLD(operand.U8(16), lowest, lowest)
			minus = f.ones()
		}
	}
	wide := func(f *function, w int, s source) (even, odd reg.VecVirtual) {
		even, odd = f.vec(w), f.vec(w)
		from := operand.Op(s.Mem)
		if f.vector != 64 || s.mask != nil {
			from = f.load(w, s)
		}
		f.VPSLLD(operand.U8(16), from, even)
		f.and(from, as(upper, w), odd)
		return even, odd
	}
	a.first = func(f *function, w int, s source) []reg.VecVirtual {
		even, odd := wide(f, w, s)
		return []reg.VecVirtual{even, odd}
	}
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) {
		even, odd := wide(f, w, s)
		op(f, even, acc[0], acc[0])
		op(f, odd, acc[1], acc[1])
	}
	a.finish = func(f *function, w int, acc []reg.VecVirtual) reg.VecVirtual {
		for _, r := range acc {
			if f.vector == 64 { // one instruction less than below
				odd := f.K()
				f.VPTESTMD(as(lowest, w), r, odd)
				f.VPADDD(as(bias, w), r, r)
				f.VPSUBD(as(minus, w), r, odd, r)
				continue
			}
			last := f.vec(w)
			f.VPSRLD(operand.U8(16), r, last)
			f.VPAND(as(lowest, w), last, last)
			f.VPADDD(as(bias, w), r, r)
			f.VPADDD(last, r, r)
		}
		even, odd := acc[0], acc[1]
		f.VPSRLD(operand.U8(16), even, even)
		if f.vector == 64 {
			f.VPTERNLOGD(operand.U8(0xd8), as(upper, w), odd, even) // upper ? odd : even
		} else {
			f.VPBLENDW(operand.U8(0xaa), odd, even, even)
		}
		return even
	}
	return a
}

// ordered16 is min and max of a 16-bit floating-point type, whose exponent has that many bits and begins at a bit. The
// bits of a number become an integer of the same order, a NaN one beyond every number; the smallest or largest is turned
// back at the end. It is one of the inputs, so nothing is rounded.
func ordered16(name string, ones, begins uint8, greatest bool) algorithm {
	a := algorithm{name: name, bytes: 2, unroll: 4}.plain(nil)
	var magnitude, infinity reg.VecVirtual
	a.setup = func(f *function) {
		magnitude, infinity = f.ones(), f.ones()
		f.VPSRLW(operand.U8(1), magnitude, magnitude)
		f.VPSRLW(operand.U8(16-ones), infinity, infinity)
		f.VPSLLW(operand.U8(begins), infinity, infinity)
	}
	turn := func(f *function, w int, r reg.VecVirtual) { // a negative number's other bits count downwards
		t := f.vec(w)
		f.VPSRAW(operand.U8(15), r, t)
		f.VPSRLW(operand.U8(1), t, t)
		f.xor(t, r, r)
	}
	key := func(f *function, w int, s source) reg.VecVirtual {
		r, nan := f.load(w, s), f.vec(w)
		f.and(as(magnitude, w), r, nan)
		if f.vector == 64 {
			k := f.K()
			f.VPCMPW(operand.U8(6), as(infinity, w), nan, k)
			f.VPMOVM2W(k, nan)
		} else {
			f.VPCMPGTW(as(infinity, w), nan, nan)
		}
		f.VPSLLW(operand.U8(15), nan, nan)
		if greatest {
			f.or(nan, r, r)
		} else {
			f.andNot(r, nan, r)
		}
		turn(f, w, r)
		return r
	}
	a.first = func(f *function, w int, s source) []reg.VecVirtual { return []reg.VecVirtual{key(f, w, s)} }
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) {
		if greatest {
			f.VPMAXSW(key(f, w, s), acc[0], acc[0])
		} else {
			f.VPMINSW(key(f, w, s), acc[0], acc[0])
		}
	}
	a.finish = func(f *function, w int, acc []reg.VecVirtual) reg.VecVirtual {
		turn(f, w, acc[0])
		return acc[0]
	}
	return a
}
