package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

// call is one all-reduce, known to all ranks.
type call struct {
	dataType collective.DataType
	op       collective.Op
	elements int
	inPlace  bool
	corrupt  bool // what this rank has got, to see that it is noticed
}

var types = []collective.DataType{collective.Float32, collective.Int32, collective.Float64, collective.Int64}

func draw(r *rand.Rand, o options) call {
	c := call{dataType: types[r.IntN(len(types))], elements: 1 + r.IntN(o.max), inPlace: r.IntN(2) == 0, op: collective.Sum}
	if r.IntN(4) == 0 {
		c.op = collective.Max
	}
	if r.IntN(3) > 0 { // mostly small
		c.elements = 1 + c.elements/256
	}
	if o.op != "" {
		c.dataType = collective.Int32
		_ = c.op.UnmarshalText([]byte(o.op)) // left as it is if there is no such op
	}
	return c
}

// change makes a call as odd as it should be.
func (c *call) change(how string) {
	switch how {
	case "other-size":
		c.elements++
	case "other-type": // of the same size, so that nothing else differs
		c.dataType = map[collective.DataType]collective.DataType{
			collective.Float32: collective.Int32, collective.Int32: collective.Float32,
			collective.Float64: collective.Int64, collective.Int64: collective.Float64,
		}[c.dataType]
	case "other-op":
		if c.op == collective.Max {
			c.op = collective.Sum
		} else {
			c.op = collective.Max
		}
	case "wrong":
		c.corrupt = true
	}
}

func (c call) String() string {
	return fmt.Sprintf("%s %s of %d elements, in place %v", c.dataType, c.op, c.elements, c.inPlace)
}

// noBackend reports whether an error is that of a call which no backend serves, or serves any more.
func noBackend(err error) bool {
	return strings.Contains(err.Error(), "is gone: ") || strings.Contains(err.Error(), "no backend serves")
}

func (p *program) make(g *rank.Group, c call, number int) error {
	if p.options.device {
		return p.onDevice(g, c, number)
	}
	switch c.dataType {
	case collective.Float32:
		return check[float32](g, c, number)
	case collective.Float64:
		return check[float64](g, c, number)
	case collective.Int64:
		return check[int64](g, c, number)
	}
	return check[int32](g, c, number)
}

type number interface {
	int32 | int64 | float32 | float64
}

// value is what a rank puts in: small whole numbers, exact in every type, that are others in every call.
func value[T number](rank, i, number int) T { return T((rank+1)*((i+number)%1000) - number%7) }

// check makes the call and compares every element.
func check[T number](g *rank.Group, c call, number int) error {
	src := make([]T, c.elements)
	for i := range src {
		src[i] = value[T](g.Rank(), i, number)
	}
	dst := src
	if !c.inPlace {
		dst = make([]T, c.elements)
	}
	if err := rank.AllReduce(g, dst, src, c.op); err != nil {
		return err
	}
	return compare(dst, g.Size(), c, number)
}

// compare says which element is wrong.
func compare[T number](dst []T, world int, c call, number int) error {
	if c.corrupt {
		dst[len(dst)/2]++
	}
	for i, got := range dst {
		want := T(0)
		if c.op == collective.Max {
			want = value[T](world-1, i, number)
		} else {
			for r := range world {
				want += value[T](r, i, number)
			}
		}
		if got != want {
			return fmt.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	return nil
}

// desert starts a program that nobody who started this one can find by its group, session, parent or environment.
func desert(name string) error {
	cmd := exec.Command(name)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
