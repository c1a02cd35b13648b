package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integers are the algorithms of integer types. Sums do not depend on the sign.
func integers(set isa) []algorithm {
	sum := func(name string, bytes int, op binary) algorithm {
		return algorithm{name: name, bytes: bytes, unroll: 8, special: common, stream: true}.plain(op)
	}
	other := func(name string, bytes int, op binary) algorithm {
		return algorithm{name: name, bytes: bytes, unroll: 8}.plain(op)
	}
	all := []algorithm{
		sum("i8Sum", 1, func(f *function, b, a, to operand.Op) { f.VPADDB(b, a, to) }),
		sum("i32Sum", 4, func(f *function, b, a, to operand.Op) { f.VPADDD(b, a, to) }),
		sum("i64Sum", 8, func(f *function, b, a, to operand.Op) { f.VPADDQ(b, a, to) }),
		other("i32Prod", 4, func(f *function, b, a, to operand.Op) { f.VPMULLD(b, a, to) }),
		other("i8Min", 1, func(f *function, b, a, to operand.Op) { f.VPMINSB(b, a, to) }),
		other("i8Max", 1, func(f *function, b, a, to operand.Op) { f.VPMAXSB(b, a, to) }),
		other("u8Min", 1, func(f *function, b, a, to operand.Op) { f.VPMINUB(b, a, to) }),
		other("u8Max", 1, func(f *function, b, a, to operand.Op) { f.VPMAXUB(b, a, to) }),
		other("i32Min", 4, func(f *function, b, a, to operand.Op) { f.VPMINSD(b, a, to) }),
		other("i32Max", 4, func(f *function, b, a, to operand.Op) { f.VPMAXSD(b, a, to) }),
	}
	if set.vector == 64 {
		return append(all,
			other("i64Min", 8, func(f *function, b, a, to operand.Op) { f.VPMINSQ(b, a, to) }),
			other("i64Max", 8, func(f *function, b, a, to operand.Op) { f.VPMAXSQ(b, a, to) }))
	}
	return append(all, compared64("i64Min", false), compared64("i64Max", true))
}

// compared64 is min and max of int64 by comparing, which is what AVX2 has.
func compared64(name string, greatest bool) algorithm {
	a := algorithm{name: name, bytes: 8, unroll: 4}.plain(nil)
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) {
		b, better := f.load(w, s), f.vec(w)
		if greatest {
			f.VPCMPGTQ(acc[0], b, better)
		} else {
			f.VPCMPGTQ(b, acc[0], better)
		}
		f.VPBLENDVB(better, b, acc[0], acc[0])
	}
	return a
}
