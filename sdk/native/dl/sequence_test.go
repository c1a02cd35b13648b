package dl_test

import (
	"testing"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/tests/require"
)

const sequenceSource = `
#include <stdint.h>
// digits writes its arguments, one decimal digit each.
int digits(int64_t *out, long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) {
	*out = ((((((((((a*10+b)*10+c)*10+d)*10+e)*10+f)*10+g)*10+h)*10+i)*10+j)*10+k);
	return 0;
}
int set(uint32_t *out, uint32_t v) { *out = v; return 0; }
int fail(int code) { return code; }
`

// words are filled by C, so they are on the heap.
type words struct{ a, b uintptr }

func TestSequence(t *testing.T) {
	lib, err := dl.Open(require.Library(t, "libsequence.so", sequenceSource))
	if err != nil {
		t.Fatal(err)
	}
	symbol := func(name string) uintptr {
		address, err := lib.Symbol(name)
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	w := &words{b: 9}
	s := dl.NewSequence(3)
	s.Step(0).Function, s.Step(0).Check, s.Step(0).Want = symbol("set"), &w.b, 4
	s.Step(0).Args[0] = uintptr(unsafe.Pointer(&w.b))
	s.Step(1).Function = symbol("digits")
	s.Step(1).Args = [12]uintptr{uintptr(unsafe.Pointer(&w.a)), 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}
	s.Step(2).Function = symbol("fail")
	for _, c := range []struct {
		set, fail, first, stopped int
		digits                    uintptr
	}{
		{4, 0, 0, 3, 12345678912},
		{5, 0, 0, 0, 0}, // the check fails, so the rest is not done
		{5, 0, 1, 3, 12345678912},
		{4, -7, 0, 2, 12345678912},
	} {
		w.a = 0
		s.Step(0).Args[1], s.Step(2).Args[0] = uintptr(c.set), uintptr(c.fail)
		if stopped := s.Run(c.first); stopped != c.stopped || w.a != c.digits || stopped == 2 && s.Step(2).Result != -7 {
			t.Errorf("%+v: stopped at %d with %d, %d", c, stopped, w.a, s.Step(2).Result)
		}
		if w.b != uintptr(c.set) {
			t.Errorf("the word to check is %d", w.b)
		}
	}
	s.Step(0).Args[1] = 4
	if n := testing.AllocsPerRun(1000, func() { s.Run(0) }); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func TestCallStruct(t *testing.T) {
	lib, err := dl.Open(require.Library(t, "libstruct.so", `
typedef struct { long w[16]; } big;
long pick(long a, long b, big s, long c, long d) { return a*1000000 + b*100000 + s.w[0]*10000 + s.w[15]*1000 + c*10 + d; }
`))
	if err != nil {
		t.Fatal(err)
	}
	pick, err := lib.Symbol("pick")
	if err != nil {
		t.Fatal(err)
	}
	if got := dl.CallStruct(pick, []uint64{3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4}, 2, 1, 2, 5, 6); got != 1234056 {
		t.Errorf("got %d", got)
	}
}

func BenchmarkSequence(b *testing.B) {
	lib, err := dl.Open(require.Library(b, "libsequence.so", sequenceSource))
	if err != nil {
		b.Fatal(err)
	}
	f, err := lib.Symbol("fail")
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		s := dl.NewSequence(n)
		for i := range n {
			s.Step(i).Function = f
		}
		b.Run(map[int]string{1: "one", 3: "three"}[n], func(b *testing.B) {
			for b.Loop() {
				s.Run(0)
			}
		})
	}
}
