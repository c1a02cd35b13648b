package bench

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/weir-project/weir/core/collective"
)

// period is the number of elements after which inputs repeat. It is prime, so that data from the wrong place differs.
const period = 1019

// Pattern is inputs whose all-reduce is exact in every data type, whatever the order of the additions, and known: small
// whole numbers, up to 256 in every partial sum of up to 85 ranks.
type Pattern struct {
	input    []byte // one period of this rank's input
	expected []byte // one period of the result
	element  int
}

// NewPattern is the inputs of one rank.
func NewPattern(class collective.Class, rank, world int) *Pattern {
	size := class.DataType.Size()
	p := &Pattern{element: size, input: make([]byte, period*size), expected: make([]byte, period*size)}
	for i := range period {
		put(class.DataType, p.input[i*size:], value(class.Op, rank, world, i))
		put(class.DataType, p.expected[i*size:], result(class, world, i))
	}
	return p
}

// Fill writes the rank's input.
func (p *Pattern) Fill(buf []byte) {
	for len(buf) > 0 {
		buf = buf[copy(buf, p.input):]
	}
}

// Wrong counts the elements that are not the result.
func (p *Pattern) Wrong(buf []byte) int64 {
	var wrong int64
	for len(buf) > 0 {
		part := buf[:min(len(buf), len(p.expected))]
		buf = buf[len(part):]
		if bytes.Equal(part, p.expected[:len(part)]) {
			continue
		}
		for i := 0; i < len(part); i += p.element {
			if !bytes.Equal(part[i:i+p.element], p.expected[i:i+p.element]) {
				wrong++
			}
		}
	}
	return wrong
}

// value is element i of a rank's input.
func value(op collective.Op, rank, world, i int) int64 {
	share := int64(max(1, 256/world)) // what every rank may add
	r, n := int64(rank), int64(i)
	switch op {
	case collective.Sum:
		return (n*7 + r*13) % (share + 1)
	case collective.Prod: // 1 but on two ranks, which differ from element to element
		v := int64(1)
		if (n/2)%int64(world) == r && n%2 == 0 {
			v *= 2
		}
		if (n/3)%int64(world) == r && n%3 == 0 {
			v *= 3
		}
		return v
	case collective.Avg: // the average, moved up on one rank and down on its neighbour by as much
		average := 1 + n%max(1, share-1)
		move := n / 5 % (average + 1)
		switch up := rank%2 == 0; {
		case up && rank+1 < world:
			return average + move
		case !up:
			return average - move
		}
		return average
	}
	return (n*31 + r*17) % 101
}

// result is element i of what all ranks get.
func result(class collective.Class, world, i int) int64 {
	v := value(class.Op, 0, world, i)
	for rank := 1; rank < world; rank++ {
		x := value(class.Op, rank, world, i)
		switch class.Op {
		case collective.Prod:
			v *= x
		case collective.Min:
			v = min(v, x)
		case collective.Max:
			v = max(v, x)
		default:
			v += x
		}
	}
	if class.Op == collective.Avg {
		v = wrap(class.DataType, v) / int64(world)
	}
	return v
}

// wrap is v as an integer type of 8 bits keeps it; the others hold every value that occurs.
func wrap(dt collective.DataType, v int64) int64 {
	switch dt {
	case collective.Int8:
		return int64(int8(v))
	case collective.Uint8:
		return int64(uint8(v))
	}
	return v
}

// put stores v at the beginning of buf.
func put(dt collective.DataType, buf []byte, v int64) {
	f := float32(v)
	switch dt {
	case collective.Float32:
		binary.NativeEndian.PutUint32(buf, math.Float32bits(f))
	case collective.Float64:
		binary.NativeEndian.PutUint64(buf, math.Float64bits(float64(v)))
	case collective.Float16:
		binary.NativeEndian.PutUint16(buf, uint16(collective.NewF16(f)))
	case collective.BFloat16:
		binary.NativeEndian.PutUint16(buf, uint16(collective.NewBF16(f)))
	case collective.Int32:
		binary.NativeEndian.PutUint32(buf, uint32(v))
	case collective.Int64:
		binary.NativeEndian.PutUint64(buf, uint64(v))
	default: // 8 bits
		buf[0] = byte(v)
	}
}
