package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// source is a vector in memory; with a mask, the bytes that it names, and zeros.
type source struct {
	operand.Mem
	mask reg.Register
}

// vec is a new vector register for w bytes.
func (f *function) vec(w int) reg.VecVirtual {
	switch w {
	case 64:
		return f.ZMM()
	case 32:
		return f.YMM()
	}
	return f.XMM()
}

// as is the part of a register that holds w bytes.
func as(r reg.VecVirtual, w int) reg.Register {
	switch w {
	case 64:
		return r.AsZ()
	case 32:
		return r.AsY()
	}
	return r.AsX()
}

// operand is the source as an instruction takes it: in memory where that is possible.
func (f *function) operand(w int, s source) operand.Op {
	if s.mask == nil && w >= 16 {
		return s.Mem
	}
	return f.load(w, s)
}

// load reads w bytes; what is above them in the register is zero.
func (f *function) load(w int, s source) reg.VecVirtual {
	r := f.vec(w)
	switch {
	case s.mask != nil:
		f.VMOVDQU8_Z(s.Mem, s.mask, r)
	case w == 64:
		f.VMOVDQU64(s.Mem, r)
	case w >= 16:
		f.VMOVDQU(s.Mem, r)
	case w == 8:
		f.VMOVQ(s.Mem, r)
	case w == 4:
		f.VMOVD(s.Mem, r)
	case w == 2:
		f.VPXOR(r, r, r)
		f.VPINSRW(operand.U8(0), s.Mem, r, r)
	default:
		f.VPXOR(r, r, r)
		f.VPINSRB(operand.U8(0), s.Mem, r, r)
	}
	return r
}

// store writes w bytes, or those that the mask names; past the caches only to whole vectors that are aligned.
func (f *function) store(w int, r reg.VecVirtual, m operand.Mem, mask reg.Register, past bool) {
	switch {
	case mask != nil:
		f.VMOVDQU8(r, mask, m)
	case past:
		f.VMOVNTDQ(r, m)
	case w == 64:
		f.VMOVDQU64(r, m)
	case w >= 16:
		f.VMOVDQU(r, m)
	case w == 8:
		f.VMOVQ(r, m)
	case w == 4:
		f.VMOVD(r, m)
	case w == 2:
		f.VPEXTRW(operand.U8(0), r, m)
	default:
		f.VPEXTRB(operand.U8(0), r, m)
	}
}

// ones is a register with all bits set.
func (f *function) ones() reg.VecVirtual {
	r := f.vec(f.vector)
	if f.vector == 64 {
		f.VPTERNLOGD(operand.U8(0xff), r, r, r)
	} else {
		f.VPCMPEQD(r, r, r)
	}
	return r
}

// and, or, xor and andNot (b and not a) of whole registers, by the names that the instruction set has for them.

func (f *function) and(b, a, to operand.Op) {
	if f.vector == 64 {
		f.VPANDD(b, a, to)
	} else {
		f.VPAND(b, a, to)
	}
}

func (f *function) or(b, a, to operand.Op) {
	if f.vector == 64 {
		f.VPORD(b, a, to)
	} else {
		f.VPOR(b, a, to)
	}
}

func (f *function) xor(b, a, to operand.Op) {
	if f.vector == 64 {
		f.VPXORD(b, a, to)
	} else {
		f.VPXOR(b, a, to)
	}
}

func (f *function) andNot(b, a, to operand.Op) {
	if f.vector == 64 {
		f.VPANDND(b, a, to)
	} else {
		f.VPANDN(b, a, to)
	}
}
