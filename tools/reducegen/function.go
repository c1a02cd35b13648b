package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// line is the size of a cache line, to which a function that writes past the caches aligns its stores.
const line = 64

// function writes one kernel. It goes over the elements in the order of their addresses:
//
//	main    as many vectors at a time as there are registers for, the sources' addresses read from the list as they are
//	        needed, or held in registers where there is a loop of its own for that number of sources
//	single  a vector at a time
//	tail    less than a vector: AVX-512 by a mask; AVX2 by two narrower vectors that overlap, both computed before
//	        either is stored, so that the destination may be one of the sources
//
// One that writes past the caches first goes through single and tail as far as the first whole line of the destination.
type function struct {
	*build.Context
	isa
	algorithm
	stream bool

	dst, list, count reg.GPVirtual // the list of sources, and how many there are
	index            reg.GPVirtual // bytes done
	length           reg.GPVirtual // bytes to do
	stop             reg.GPVirtual // where single and tail stop: length, but before main of one that streams
	labels           int
}

func (f *function) name() string {
	if f.stream {
		return f.algorithm.name + "Stream" + f.isa.name
	}
	return f.algorithm.name + f.isa.name
}

// step is how many bytes of memory fill the accumulators of one vector.
func (f *function) step() int {
	if f.half {
		return f.vector / 2
	}
	return f.vector
}

func (f *function) label(name string) string {
	f.labels++
	return fmt.Sprintf("%s%d", name, f.labels)
}

func (f *function) jump(to string) operand.LabelRef { return operand.LabelRef(to) }

func (f *function) emit() {
	f.Function(f.name())
	f.Attributes(textFlags)
	f.Signature(signature(f.copies))
	f.arguments()
	f.setup(f)
	main, single, tail, end := f.label("main"), f.label("single"), f.label("tail"), f.label("end")
	if f.stream {
		f.head(single)
	} else {
		f.CMPQ(f.length, operand.U32(f.step()))
		f.JLT(f.jump(tail))
		for _, sources := range f.special {
			f.CMPQ(f.count, operand.U32(sources))
			next := f.label("not")
			f.JNE(f.jump(next))
			f.fixed(sources, tail)
			f.Label(next)
		}
	}
	f.Label(main)
	f.loop(f.length, f.unroll, func(p []place) { f.listed(f.step(), p, nil, f.stream) })
	if f.stream {
		f.MOVQ(f.length, f.stop)
	}
	f.Label(single)
	f.loop(f.stop, 1, func(p []place) { f.listed(f.step(), p, nil, false) })
	f.Label(tail)
	f.tail(end)
	f.Label(end)
	if f.stream {
		f.MOVQ(f.stop, f.index)
		f.CMPQ(f.index, f.length)
		f.JLT(f.jump(main))
		f.SFENCE()
	}
	f.VZEROUPPER()
	f.RET()
}

func (f *function) arguments() {
	arg := func(name string, at int) reg.GPVirtual {
		r := f.GP64()
		f.MOVQ(operand.NewParamAddr(name, at), r)
		return r
	}
	f.dst = arg("dst", 0)
	if f.copies { // a list of one, which is the argument itself
		f.list = f.GP64()
		f.LEAQ(operand.NewParamAddr("src", 8), f.list)
		f.length = arg("bytes", 16)
	} else {
		f.list, f.count, f.length = arg("srcs_base", 8), arg("srcs_len", 16), arg("n", 32)
	}
	if f.bytes > 1 {
		f.SHLQ(operand.U8(bits.TrailingZeros(uint(f.bytes))), f.length)
	}
	f.index = f.GP64()
	f.XORQ(f.index, f.index)
	f.stop = f.length
}

// head has the bytes before the destination's first whole line done first.
func (f *function) head(single string) {
	f.stop = f.GP64()
	f.MOVQ(f.dst, f.stop)
	f.NEGQ(f.stop)
	f.ANDQ(operand.U32(line-1), f.stop)
	f.CMPQ(f.stop, f.length)
	f.CMOVQGT(f.length, f.stop)
	f.JMP(f.jump(single))
}

// place is where a vector lies in each of the arrays.
type place struct {
	index reg.Register
	disp  int
}

func at(base reg.Register, p place) operand.Mem {
	return operand.Mem{Base: base, Index: p.index, Scale: 1, Disp: p.disp}
}

// loop runs the body over that many vectors as often as they fit before stop.
func (f *function) loop(stop reg.GPVirtual, vectors int, body func([]place)) {
	again, done := f.label("again"), f.label("done")
	size := vectors * f.step()
	limit := f.GP64()
	f.LEAQ(operand.Mem{Base: stop, Disp: -size}, limit)
	f.CMPQ(f.index, limit)
	f.JGT(f.jump(done))
	f.Label(again)
	places := make([]place, vectors)
	for i := range places {
		places[i] = place{f.index, i * f.step()}
	}
	body(places)
	f.ADDQ(operand.U32(size), f.index)
	f.CMPQ(f.index, limit)
	f.JLE(f.jump(again))
	f.Label(done)
}

// listed computes vectors of w bytes at the places, reading the sources' addresses from the list.
func (f *function) listed(w int, places []place, mask reg.Register, past bool) {
	again, done := f.label("source"), f.label("store")
	base, i := f.GP64(), f.GP64()
	f.MOVQ(operand.Mem{Base: f.list}, base)
	accs := make([][]reg.VecVirtual, len(places))
	for j, p := range places {
		accs[j] = f.first(f, w, source{at(base, p), mask})
	}
	if !f.copies {
		f.MOVQ(operand.U32(1), i)
		f.CMPQ(i, f.count)
		f.JGE(f.jump(done))
		f.Label(again)
		f.MOVQ(operand.Mem{Base: f.list, Index: i, Scale: 8}, base)
		for j, p := range places {
			f.combine(f, w, accs[j], source{at(base, p), mask})
		}
		f.INCQ(i)
		f.CMPQ(i, f.count)
		f.JLT(f.jump(again))
		f.Label(done)
	}
	f.put(w, places, accs, mask, past)
}

func (f *function) put(w int, places []place, accs [][]reg.VecVirtual, mask reg.Register, past bool) {
	results := make([]reg.VecVirtual, len(places))
	for j := range places {
		results[j] = f.finish(f, w, accs[j])
	}
	for j, p := range places {
		f.store(w, results[j], at(f.dst, p), mask, past)
	}
}

// fixed is main and single for a number of sources known beforehand.
func (f *function) fixed(sources int, tail string) {
	bases := make([]reg.GPVirtual, sources)
	for i := range bases {
		bases[i] = f.GP64()
		f.MOVQ(operand.Mem{Base: f.list, Disp: 8 * i}, bases[i])
	}
	body := func(places []place) {
		accs := make([][]reg.VecVirtual, len(places))
		for j, p := range places {
			accs[j] = f.first(f, f.step(), source{at(bases[0], p), nil})
		}
		for _, base := range bases[1:] {
			for j, p := range places {
				f.combine(f, f.step(), accs[j], source{at(base, p), nil})
			}
		}
		f.put(f.step(), places, accs, nil, false)
	}
	f.loop(f.length, min(f.unroll, 4), body)
	f.loop(f.length, 1, body)
	f.JMP(f.jump(tail))
}

// tail computes the bytes from index to stop, fewer than a vector.
func (f *function) tail(end string) {
	rest := f.GP64()
	f.MOVQ(f.stop, rest)
	f.SUBQ(f.index, rest)
	if f.vector == 64 {
		f.JEQ(f.jump(end))
		ones, mask := f.GP64(), f.K()
		f.MOVQ(operand.I32(-1), ones)
		f.BZHIQ(rest, ones, ones)
		f.KMOVQ(ones, mask)
		f.listed(f.step(), []place{{f.index, 0}}, mask, false)
		return
	}
	for w := f.step() / 2; w >= f.bytes; w /= 2 {
		narrower := f.label("narrower")
		f.CMPQ(rest, operand.U32(w))
		f.JLT(f.jump(narrower))
		places := []place{{f.index, 0}}
		if w > f.bytes {
			last := f.GP64()
			f.LEAQ(operand.Mem{Base: f.stop, Disp: -w}, last)
			places = append(places, place{last, 0})
		}
		f.listed(w, places, nil, false)
		f.JMP(f.jump(end))
		f.Label(narrower)
	}
}
