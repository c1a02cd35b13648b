package exec

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// selfTestLimit is the largest byte count that SelfTest tries, unless a range begins above it.
const selfTestLimit = 2 << 20

// SelfTest makes a handful of calls, of two mebibytes at most whatever the ranges are, in place and out of place, on inputs whose result is known exactly, and compares
// every element. All ranks of the group must run it at the same time with the same arguments, but for rank, run and
// memory. edges are byte counts near which a plan changes what it does, such as its tile; ranges are what it is to serve.
// memory is where the buffers lie; with nil they are allocated.
func SelfTest(run func(Call) error, rank, world int, class collective.Class, ranges []backend.Range, edges []int64, memory []byte) error {
	limit := int64(selfTestLimit)
	if memory != nil {
		limit = min(limit, int64(len(memory)/2))
	}
	return SelfTestSizes(run, rank, world, class, within(TestSizes(class.DataType, ranges, edges, limit), limit), memory)
}

// within are the byte counts that are at most limit. If all are above it, a plan that is proved for every size is tried
// with limit instead.
func within(sizes []int64, limit int64) []int64 {
	some := lo.Filter(sizes, func(n int64, _ int) bool { return n <= limit })
	if len(some) == 0 && len(sizes) > 0 {
		some = []int64{limit}
	}
	return some
}

// TestSizes are the byte counts worth trying within the ranges: the smallest, those around the edges, some tiles, the
// largest. None is above limit but the smallest of a range. There are none if the ranges hold no whole element.
func TestSizes(dt collective.DataType, ranges []backend.Range, edges []int64, limit int64) []int64 {
	size := int64(dt.Size())
	var sizes []int64
	for _, r := range ranges {
		r, _ := r.Intersect(backend.Range{Min: size, Max: backend.NoLimit, Multiple: size})
		step := max(r.Multiple, 1)
		least := (r.Min + step - 1) / step * step
		most := min(r.Max, max(limit, least)) / step * step
		wanted := []int64{least, least + step, 17 * step, most - step, most}
		for _, e := range edges {
			e = e / step * step
			wanted = append(wanted, e-step, e, e+step, 2*e+step, 5*e-step)
		}
		for _, w := range wanted {
			if r.Contains(w) && w <= most {
				sizes = append(sizes, w)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// SelfTestSizes is SelfTest at byte counts of the caller's choice. memory, if not nil, holds two buffers.
func SelfTestSizes(run func(Call) error, rank, world int, class collective.Class, sizes []int64, memory []byte) error {
	return trial{run: run, class: class, rank: rank, world: world}.trySizes(sizes, memory)
}

// SelfTestNumbered is SelfTestSizes with calls that have numbers, which is what a worker gets to see: number gives that of
// the i-th call. Two calls are made for each size.
func SelfTestNumbered(run func(Call) error, rank, world int, class collective.Class, sizes []int64, number func(i int) uint64) error {
	return trial{run: run, class: class, rank: rank, world: world, number: number}.trySizes(sizes, nil)
}

// trySizes makes two calls for each size. memory, if not nil, holds two buffers.
func (t trial) trySizes(sizes []int64, memory []byte) error {
	if memory != nil {
		sizes = within(sizes, int64(len(memory)/2))
	}
	if len(sizes) == 0 {
		return nil
	}
	inputs := make([][]byte, t.world)
	for r := range inputs {
		inputs[r] = pattern(t.class, r, t.world)
	}
	t.input, t.want = inputs[t.rank], Reference(t.class.DataType, t.class.Op, inputs)
	largest := slices.Max(sizes)
	if memory == nil {
		memory = aligned(2 * ((largest + 63) / 64 * 64))
	}
	src, dst := memory[:largest], memory[len(memory)/2:]
	var first error
	for i, n := range sizes {
		for in, from := range [][]byte{src[:n], dst[:n]} {
			wrong, err := t.try(2*i+in, dst[:n], from)
			if err != nil {
				return err // the plan is dead
			}
			// After a wrong result it goes on: only this rank may have seen it, and the others count on its part.
			first = cmp.Or(first, wrong)
		}
	}
	return first
}

// trial is one rank's part of a self-test.
type trial struct {
	run         func(Call) error
	class       collective.Class
	rank, world int
	input, want []byte                       // one period of what this rank puts in, and of what comes out
	near        func(got, want float64) bool // takes a result for right that is near enough; nil: exact ones only
	number      func(i int) uint64           // of the i-th call; nil: 0, as of calls by which a plan is tried
}

// try makes the i-th call; dst and src are the same slice or disjoint. wrong is a result that is not as it should be, err a
// call that failed.
func (t trial) try(i int, dst, src []byte) (wrong, err error) {
	inPlace := &dst[0] == &src[0]
	fill(dst, []byte{0xa5}) // so that what is not written is seen
	fill(src, t.input)
	where := fmt.Sprintf("rank %d of %d, %s %s, %d bytes %s", t.rank, t.world, t.class.DataType, t.class.Op, len(src),
		map[bool]string{true: "in place", false: "out of place"}[inPlace])
	c := Call{Class: t.class, Dst: unsafe.Pointer(&dst[0]), Src: unsafe.Pointer(&src[0]), Bytes: int64(len(src))}
	if t.number != nil {
		c.Number = t.number(i)
		where += fmt.Sprintf(", call number %d", c.Number)
	}
	err = t.run(c)
	if err != nil {
		return nil, fmt.Errorf("self-test: %s: %w", where, err)
	}
	if at, got, want := t.differs(dst, t.want, t.near); at >= 0 {
		return fmt.Errorf("self-test: %s: element %d is %v, want %v", where, at, got, want), nil
	}
	if at, got, want := t.differs(src, t.input, nil); !inPlace && at >= 0 {
		return fmt.Errorf("self-test: %s: element %d of the source was changed to %v, it was %v", where, at, got, want), nil
	}
	return nil, nil
}

// differs finds the first element of buf that is not as the repeated pattern has it, or -1.
func (t trial) differs(buf, pattern []byte, near func(got, want float64) bool) (at int, got, want float64) {
	dt := t.class.DataType
	for base := 0; base < len(buf); base += len(pattern) {
		part := buf[base:min(len(buf), base+len(pattern))]
		if bytes.Equal(part, pattern[:len(part)]) {
			continue
		}
		size := dt.Size()
		for i := range len(part) / size {
			if !bytes.Equal(part[i*size:(i+1)*size], pattern[i*size:(i+1)*size]) && (near == nil || !near(At(dt, part, i), At(dt, pattern, i))) {
				return base/size + i, At(dt, part, i), At(dt, pattern, i)
			}
		}
	}
	return -1, 0, 0
}

// fill repeats the pattern through buf.
func fill(buf, pattern []byte) {
	for n := copy(buf, pattern); n < len(buf); {
		n += copy(buf[n:], buf[:n])
	}
}

// aligned is a buffer that begins at a multiple of 8 bytes.
func aligned(bytes int64) []byte {
	words := make([]uint64, (bytes+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), bytes)
}
