package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// algorithm is how one type and op is computed on vectors. Its functions write instructions for vectors of w bytes of
// memory.
type algorithm struct {
	name    string
	bytes   int   // of an element
	half    bool  // an accumulator holds elements of half the size in memory
	unroll  int   // vectors at a time
	special []int // numbers of sources that have a loop of their own
	stream  bool  // there is also one that writes past the caches
	copies  bool  // its signature is that of a copy

	setup   func(f *function)                                             // constants
	first   func(f *function, w int, s source) []reg.VecVirtual           // accumulators of the first source
	combine func(f *function, w int, acc []reg.VecVirtual, s source)      // with one more
	finish  func(f *function, w int, acc []reg.VecVirtual) reg.VecVirtual // as it is stored
}

// binary is an instruction of two sources; the first may be in memory.
type binary func(f *function, b, a, to operand.Op)

// common are the numbers of sources that nearly all calls have.
var common = []int{2, 3, 4, 8}

func algorithms(set isa) []algorithm {
	all := []algorithm{(algorithm{name: "copy", bytes: 1, unroll: 8, stream: true, copies: true}).plain(nil)}
	for _, t := range []struct {
		name          string
		bytes         int
		add, multiply binary
	}{{"f32", 4, addF32, mulF32}, {"f64", 8, addF64, mulF64}} {
		all = append(all,
			algorithm{name: t.name + "Sum", bytes: t.bytes, unroll: 8, special: common, stream: true}.plain(t.add),
			algorithm{name: t.name + "Avg", bytes: t.bytes, unroll: 8}.plain(t.add).divided(),
			algorithm{name: t.name + "Prod", bytes: t.bytes, unroll: 8}.plain(t.multiply),
			ordered(set, t.name+"Min", t.bytes, false),
			ordered(set, t.name+"Max", t.bytes, true),
		)
	}
	for _, t := range []struct {
		name string
		with func(algorithm, binary) algorithm
		ones uint8 // bits in the exponent
		at   uint8 // where it begins
	}{{"f16", algorithm.float16, 5, 10}, {"bf16", algorithm.bfloat16, 8, 7}} {
		unroll := map[string]int{"f16": 8, "bf16": 4}[t.name]
		all = append(all,
			t.with(algorithm{name: t.name + "Sum", bytes: 2, unroll: unroll, special: common, stream: true}, addF32),
			t.with(algorithm{name: t.name + "Avg", bytes: 2, unroll: unroll}, addF32).divided(),
			t.with(algorithm{name: t.name + "Prod", bytes: 2, unroll: unroll}, mulF32),
			ordered16(t.name+"Min", t.ones, t.at, false),
			ordered16(t.name+"Max", t.ones, t.at, true),
		)
	}
	return append(all, integers(set)...)
}

// plain accumulates elements as they are in memory.
func (a algorithm) plain(op binary) algorithm {
	a.setup = func(*function) {}
	a.first = func(f *function, w int, s source) []reg.VecVirtual { return []reg.VecVirtual{f.load(w, s)} }
	a.combine = func(f *function, w int, acc []reg.VecVirtual, s source) { op(f, f.operand(w, s), acc[0], acc[0]) }
	a.finish = func(_ *function, _ int, acc []reg.VecVirtual) reg.VecVirtual { return acc[0] }
	return a
}

// divided divides the accumulators before the rest of finish. The accumulators of 16-bit types are float32.
func (a algorithm) divided() algorithm {
	setup, finish := a.setup, a.finish
	var divisor reg.VecVirtual
	a.setup = func(f *function) {
		setup(f)
		divisor = f.vec(f.vector)
		x, n := divisor.AsX(), operand.NewParamAddr("divide", 40)
		f.VXORPS(x, x, x)
		if a.bytes == 8 {
			f.VCVTSI2SDQ(n, x, x)
			f.VBROADCASTSD(x, divisor)
		} else {
			f.VCVTSI2SSQ(n, x, x)
			f.VBROADCASTSS(x, divisor)
		}
	}
	a.finish = func(f *function, w int, acc []reg.VecVirtual) reg.VecVirtual {
		wide := w
		if a.half {
			wide = 2 * w
		}
		for _, r := range acc {
			if a.bytes == 8 {
				f.VDIVPD(as(divisor, wide), r, r)
			} else {
				f.VDIVPS(as(divisor, wide), r, r)
			}
		}
		return finish(f, w, acc)
	}
	return a
}

func addF32(f *function, b, a, to operand.Op) { f.VADDPS(b, a, to) }
func addF64(f *function, b, a, to operand.Op) { f.VADDPD(b, a, to) }
func mulF32(f *function, b, a, to operand.Op) { f.VMULPS(b, a, to) }
func mulF64(f *function, b, a, to operand.Op) { f.VMULPD(b, a, to) }
