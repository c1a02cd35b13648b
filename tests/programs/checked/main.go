// Command checked makes all-reduces of random sizes, types, ops and placements, the same on every rank by a seed, and
// compares every element of every result. It counts its calls, so that one that is lost or doubled is noticed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/rank"
)

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "of the calls, the same on every rank")
	flag.IntVar(&o.calls, "calls", 1000, "number of `calls`")
	flag.IntVar(&o.max, "max", 64<<10, "most `elements` of a call")
	flag.DurationVar(&o.pause, "pause", 0, "longest random `pause` of a rank before a call")
	flag.StringVar(&o.op, "op", "", "only this reduce `op`, of int32")
	flag.DurationVar(&o.limit, "for", 0, "go on for so long instead of a number of calls")
	flag.StringVar(&o.strange, "strange", "", "a `rank@call` whose call is one element longer than the others'")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintf(os.Stderr, "checked: %s\n", err)
		os.Exit(1)
	}
}

type options struct {
	seed       uint64
	calls, max int
	pause      time.Duration
	op         string
	limit      time.Duration
	strange    string
}

func run(ctx context.Context, o options) error {
	s, err := rank.Join(ctx, rank.Options{})
	if err != nil {
		return err
	}
	n, err := calls(s.World(), o)
	if err != nil {
		return err
	}
	fmt.Printf("rank %d: %d calls, all right\n", s.World().Rank(), n)
	return s.Close()
}

// calls makes the calls and says how many there were.
func calls(g *rank.Group, o options) (number int, err error) {
	same, own := rand.New(rand.NewPCG(o.seed, 0)), rand.New(rand.NewPCG(o.seed, uint64(g.Rank())+1))
	start := time.Now()
	for number = 1; ; number++ {
		if o.pause > 0 && own.IntN(8) == 0 {
			time.Sleep(time.Duration(own.Int64N(int64(o.pause))))
		}
		if number == 2 && g.Rank() == 0 {
			fmt.Println("calling")
		}
		c := draw(same, o)
		if o.strange == fmt.Sprintf("%d@%d", g.Rank(), number) {
			c.elements++
		}
		if err := c.make(g, number); err != nil {
			return number, fmt.Errorf("call %d (%s): %w", number, c, err)
		}
		over, err := number == o.calls, error(nil)
		if o.limit > 0 {
			over, err = late(g, number, start.Add(o.limit))
		}
		if err != nil || over {
			return number, err
		}
	}
}

// late has rank 0 say, now and then, whether it is time to end, so that all ranks end after the same call.
func late(g *rank.Group, number int, end time.Time) (bool, error) {
	if number%32 != 0 {
		return false, nil
	}
	flag := []int32{0}
	if g.Rank() == 0 && time.Now().After(end) {
		flag[0] = 1
	}
	err := rank.AllReduce(g, flag, flag, collective.Max)
	return flag[0] != 0, err
}

// call is one all-reduce, known to all ranks.
type call struct {
	dataType collective.DataType
	op       collective.Op
	elements int
	inPlace  bool
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

func (c call) String() string {
	return fmt.Sprintf("%s %s of %d elements, in place %v", c.dataType, c.op, c.elements, c.inPlace)
}

func (c call) make(g *rank.Group, number int) error {
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

// check makes the call. Values are small whole numbers, exact in every type.
func check[T int32 | int64 | float32 | float64](g *rank.Group, c call, number int) error {
	value := func(rank, i int) T { return T((rank+1)*((i+number)%1000) - number%7) }
	src := make([]T, c.elements)
	for i := range src {
		src[i] = value(g.Rank(), i)
	}
	dst := src
	if !c.inPlace {
		dst = make([]T, c.elements)
	}
	if err := rank.AllReduce(g, dst, src, c.op); err != nil {
		return err
	}
	world := g.Size()
	for i, got := range dst {
		want := T(0)
		if c.op == collective.Max {
			want = value(world-1, i)
		} else {
			for r := range world {
				want += value(r, i)
			}
		}
		if got != want {
			return fmt.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	return nil
}
